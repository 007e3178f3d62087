"""Python tests run by pytest."""

def pytest_test(name, src, data = [], deps = [], **kwargs):
    """A py_test that runs the tests of one file with pytest and reports each of them to Bazel.

    Args:
      name: the test's name.
      src: the file with the tests.
      data: files that they read.
      deps: libraries that they import.
      **kwargs: handed on to py_test.
    """
    native.py_test(
        name = name,
        srcs = [src, "//tools:pytest_main.py"],
        main = "//tools:pytest_main.py",
        args = ["$(location %s)" % src],
        data = data,
        deps = deps,
        **kwargs
    )
