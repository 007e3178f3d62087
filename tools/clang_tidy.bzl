"""clang-tidy as a test: one cached run a source file."""

TidyInfo = provider(
    doc = "clang-tidy's reports on a target and all below it.",
    fields = {"reports": "depset of files, empty where there is nothing to say"},
)

def _flags(context):
    """The compiler flags under which a target's sources mean what they mean."""
    arguments = ["-std=c++20", "-x", "c++"]
    arguments += ["-D" + define for define in context.defines.to_list()]
    arguments += ["-iquote", "."]

    # Others' headers are system headers, in which nothing is looked for.
    for folders in [context.quote_includes, context.includes, context.system_includes]:
        for folder in folders.to_list():
            if folder.startswith("external/"):
                arguments += ["-isystem", folder]
    return arguments

def _tidy_aspect_impl(target, ctx):
    deps = getattr(ctx.rule.attr, "deps", [])
    below = [dep[TidyInfo].reports for dep in deps if TidyInfo in dep]
    is_ours = not ctx.label.workspace_name and ctx.rule.kind.startswith("cc_")
    if not is_ours:
        return [TidyInfo(reports = depset(transitive = below))]

    infos = [label[CcInfo] for label in [target] + deps if CcInfo in label]
    context = cc_common.merge_cc_infos(cc_infos = infos).compilation_context
    reports = []
    for source in ctx.rule.files.srcs:
        if source.extension != "cc":
            continue
        report = ctx.actions.declare_file(source.basename + ".tidy")
        ctx.actions.run_shell(
            # A finding is the report's content, not a failed build: the test shows all of them.
            command = '"$1" --quiet --config-file="$2" "$3" -- "${@:5}" 2>&1 | ' +
                      'sed "s,^$PWD/,," >"$4"; test "${PIPESTATUS[0]}" = 0 || test -s "$4"',
            arguments = [
                ctx.executable._clang_tidy.path,
                ctx.file._config.path,
                source.path,
                report.path,
            ] + _flags(context),
            inputs = depset([source, ctx.file._config], transitive = [context.headers]),
            tools = [ctx.executable._clang_tidy],
            outputs = [report],
            mnemonic = "ClangTidy",
            progress_message = "clang-tidy %s" % source.short_path,
        )
        reports.append(report)
    return [TidyInfo(reports = depset(reports, transitive = below))]

_tidy_aspect = aspect(
    implementation = _tidy_aspect_impl,
    attr_aspects = ["deps"],
    attrs = {
        "_clang_tidy": attr.label(
            default = "@python//:clang-tidy",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
        "_config": attr.label(default = "//:.clang-tidy", allow_single_file = True),
    },
)

def _clang_tidy_test_impl(ctx):
    reports = depset(transitive = [target[TidyInfo].reports for target in ctx.attr.targets])
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    paths = [report.short_path for report in reports.to_list()]
    ctx.actions.write(
        script,
        "#!/bin/sh\ncat {0}\n! cat {0} | grep -q .\n".format(" ".join(paths)),
        is_executable = True,
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = reports))]

clang_tidy_test = rule(
    implementation = _clang_tidy_test_impl,
    attrs = {
        "targets": attr.label_list(
            doc = "C++ targets; they and all of this workspace that they depend on are checked.",
            aspects = [_tidy_aspect],
        ),
    },
    test = True,
    doc = "Fails where clang-tidy finds anything in a source file or a header it includes.",
)
