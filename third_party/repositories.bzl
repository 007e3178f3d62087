"""Repositories made from what bazelw prepared: abseil, torch and the Python that runs tests."""

def _prepared(repository_ctx, name):
    """The path of one of bazelw's links under .deps."""
    path = repository_ctx.path(Label("//:WORKSPACE")).dirname.get_child(".deps").get_child(name)
    if not path.exists:
        fail(".deps/%s is missing: call ./bazelw instead of bazel" % name)
    return path.realpath

def _python(repository_ctx):
    return _prepared(repository_ctx, "python").get_child("bin").get_child("python")

def _run(repository_ctx, arguments):
    result = repository_ctx.execute(arguments)
    if result.return_code:
        fail("%s failed: %s" % (arguments, result.stderr))
    return result.stdout.strip()

def _abseil_impl(repository_ctx):
    repository_ctx.extract(
        _prepared(repository_ctx, "abseil.tar.gz"),
        stripPrefix = repository_ctx.attr.strip_prefix,
    )

    # Two platforms that this Bazel does not know.
    _run(repository_ctx, [
        "sed",
        "-i",
        "s,@platforms//cpu:wasm32,@platforms//cpu:ppc,;s,@platforms//cpu:wasm64,@platforms//cpu:s390x,",
        "absl/BUILD.bazel",
    ])

abseil_repository = repository_rule(
    implementation = _abseil_impl,
    attrs = {"strip_prefix": attr.string(default = "abseil-20220623.1")},
    doc = "abseil built from source: Debian's archives can't go into a shared library.",
)

_TORCH_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"], exclude = ["include/gtest/**"]),
    defines = ["FMT_HEADER_ONLY=1"],
    includes = ["include", "include/torch/csrc/api/include"],
)

cc_import(name = "torch_cpu_library", shared_library = "lib/libtorch_cpu.so")

cc_import(name = "c10_library", shared_library = "lib/libc10.so")

cc_library(
    name = "torch_cpu",
    # The compiler's own dependency check would name each of torch's headers.
    linkopts = ["-Wl,-rpath,{lib}", "-Wl,-rpath-link,{lib}"],
    deps = [":c10_library", ":headers", ":torch_cpu_library"],
)
"""

def _torch_impl(repository_ctx):
    folder = repository_ctx.path(_run(repository_ctx, [
        _python(repository_ctx),
        "-c",
        "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])",
    ]))
    for name in ["include", "lib"]:
        repository_ctx.symlink(folder.get_child(name), name)
    repository_ctx.file("BUILD", _TORCH_BUILD.format(lib = folder.get_child("lib")))

torch_repository = repository_rule(
    implementation = _torch_impl,
    local = True,
    doc = "The installed torch's headers and CPU libraries.",
)

_PYTHON_BUILD = """
load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

py_runtime(name = "runtime", interpreter_path = "{python}", python_version = "PY3")

py_runtime_pair(name = "runtime_pair", py3_runtime = ":runtime")

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)

exports_files(["clang-tidy"])
"""

def _python_impl(repository_ctx):
    python = _python(repository_ctx)
    repository_ctx.file("BUILD", _PYTHON_BUILD.format(python = python))
    repository_ctx.symlink(python.dirname.get_child("clang-tidy"), "clang-tidy")

python_repository = repository_rule(
    implementation = _python_impl,
    local = True,
    doc = "The Python with the pinned packages: the toolchain of Python rules, and clang-tidy.",
)
