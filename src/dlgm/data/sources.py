"""Where the data sets are published: addresses, sizes, checksums and terms. This is the only table of them.

A checksum is that of the published file, byte for byte. Sizes and SHA-256 sums are the ones TensorFlow Datasets records
for the same addresses; those of CIFAR-10's batches are torchvision-ruby's. Of Frey's faces no confirmed checksum is
known (and the size is approximate), so a fetched copy is checked by reading it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

MIRROR_VARIABLE = "DLGM_MIRROR"


@dataclass(frozen=True)
class PublishedFile:
    """A file as it can be downloaded, either kept as it is or unpacked."""

    name: str  # the end of its address
    size: int  # bytes
    sha256: str | None  # None where no published one is known
    members: Mapping[str, str | None] = field(default_factory=dict)  # of an archive: its files, with their SHA-256

    @property
    def kept(self) -> Mapping[str, str | None]:
        """What is in the cache afterwards: names, with their SHA-256."""
        return self.members or {self.name: self.sha256}


@dataclass(frozen=True)
class Source:
    """A published data set."""

    name: str
    folder: str  # in the cache
    page: str
    terms: str
    mirrors: tuple[str, ...]  # a file's address is one of these and its name; the first that works is used
    files: tuple[PublishedFile, ...]

    @property
    def size(self) -> int:
        """Bytes to download for all of it."""
        return sum(file.size for file in self.files)

    def addresses(self) -> tuple[str, ...]:
        """The mirrors, in the order they are tried: one that `DLGM_MIRROR` names, laid out as the cache, is first."""
        own = os.environ.get(MIRROR_VARIABLE)
        return (f"{own.rstrip('/')}/{self.folder}/", *self.mirrors) if own else self.mirrors


BINARIZED_MNIST = Source(
    "binarized-mnist",
    "binarized_mnist",
    "https://www.cs.toronto.edu/~larocheh/",
    "none stated",
    (
        "https://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/",
        "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/",
    ),
    (
        PublishedFile(
            "binarized_mnist_train.amat",
            78_400_000,
            "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d",
        ),
        PublishedFile(
            "binarized_mnist_valid.amat",
            15_680_000,
            "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2",
        ),
        PublishedFile(
            "binarized_mnist_test.amat",
            15_680_000,
            "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c",
        ),
    ),
)

MNIST = Source(
    "mnist",
    "mnist",
    "http://yann.lecun.com/exdb/mnist/",
    "CC BY-SA 3.0",
    (
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    (
        PublishedFile(
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        PublishedFile(
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        PublishedFile(
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        PublishedFile(
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
)

FASHION_MNIST = Source(
    "fashion-mnist",
    "fashion_mnist",
    "https://github.com/zalandoresearch/fashion-mnist",
    "MIT",
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    (
        PublishedFile(
            "train-images-idx3-ubyte.gz",
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        PublishedFile(
            "train-labels-idx1-ubyte.gz",
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        PublishedFile(
            "t10k-images-idx3-ubyte.gz",
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        PublishedFile(
            "t10k-labels-idx1-ubyte.gz",
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
)

FREY_FACES = Source(
    "frey-faces",
    "frey_faces",
    "https://cs.nyu.edu/~roweis/data.html",
    "none stated",
    ("https://cs.nyu.edu/~roweis/data/", "http://www.cs.nyu.edu/~roweis/data/"),
    (PublishedFile("frey_rawface.mat", 1_100_000, None),),
)

CIFAR10 = Source(
    "cifar10",
    "cifar10",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    "none stated",
    ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
    (
        PublishedFile(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            {
                f"cifar-10-batches-bin/{name}.bin": sha256
                for name, sha256 in {
                    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                }.items()
            },
        ),
    ),
)

SVHN = Source(
    "svhn",
    "svhn",
    "http://ufldl.stanford.edu/housenumbers/",
    "non-commercial",
    ("http://ufldl.stanford.edu/housenumbers/",),
    (
        PublishedFile(
            "train_32x32.mat",
            182_040_794,
            "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
        ),
        PublishedFile(
            "test_32x32.mat",
            64_275_384,
            "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
        ),
    ),
)

SMALL_NORB = Source(
    "small-norb",
    "small_norb",
    "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
    "research only",
    (
        "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
        "http://www.cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
    ),
    (
        PublishedFile(
            "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat.gz",
            131_896_188,
            "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873",
        ),
        PublishedFile(
            "smallnorb-5x46789x9x18x6x2x96x96-training-cat.mat.gz",
            348,
            "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa",
        ),
        PublishedFile(
            "smallnorb-5x01235x9x18x6x2x96x96-testing-dat.mat.gz",
            130_799_817,
            "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474",
        ),
        PublishedFile(
            "smallnorb-5x01235x9x18x6x2x96x96-testing-cat.mat.gz",
            347,
            "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff",
        ),
    ),
)


def size_in_words(num_bytes: int) -> str:
    """A download's size as a person would say it.

    >>> size_in_words(11_594_722), size_in_words(246_316_178), size_in_words(840)
    ('11.6 MB', '246 MB', '1 kB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:.3g} {name}"
    return f"{max(1, round(num_bytes / 1e3))} kB"
