"""The sandbox: child processes that parse untrusted files.

`host` runs in our own process: it starts the zygote, asks it for children and explains how they
died. `zygote` is a process with libraries and models loaded, from which children are forked within
milliseconds. `child` confines itself and runs one of the `tasks` that the host names. They talk in
the frames of `protocol`: JSON and raw bytes, never pickle. `confinement` and `landlock` remove the
rights that a child does not need. Begin with `host.Sandbox`.
"""
