"""Child processes in which foreign bytes are parsed, and nowhere else.

host    starts the zygote and, from it, children; runs in our own process
zygote  a process with libraries and models loaded, from which children are forked in no time
child   what a child does: confine itself, then open one document and read pages of it
wire    how they talk: JSON, and pixels beside it; never pickle
"""
