"""Write-side flows, one explicit function per file.

add.py           accept inputs: bytes, rows and jobs in one commit
incoming.py      what an add brings, in one shape
conflicts.py     which roots are in the way of what is added
replace.py       make room for what replaces them
readable.py      which files can become text here
prepare.py       job: bring a container's rows in step with its source
expansion.py     which source of children belongs to a container
open_folders.py  the folders that an expansion is in
left_out.py      what an expansion did not take
index.py         job: read, cut, embed one leaf and replace its material
capture.py       fetch what is behind the address of a page
convert.py       job: look at the conversion of a file, whose first look begins it
conversions.py   the folders in which conversions work
mending.py       a damaged index is replaced by a blank one
reindex.py       acquire sources again; job: put their items back to work
delete.py        hide subtrees now; job: remove them
purge.py         physical removal under the base lock
intervene.py     what a person may do to a job
recovery.py      the sweep: settle lost runs, park what nobody does, send again what got lost
stall.py         a run that hangs
boot.py          the first worker of an installation starts
tidy.py          hourly: bytes that no row names
placing.py       bytes that go into raw/ with their rows, or not at all
origin.py        where an item came from, to the byte, and who may have it read again
run.py           one run of a job: checkpoints, and how it ends
claims.py        from a message's job id to a run
window.py        the ledger as dispatch sees it
"""
