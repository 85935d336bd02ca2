"""Write-side flows, one explicit function per file.

add.py        accept inputs: bytes, rows and jobs in one commit
prepare.py    job: expand a directory into child rows and their jobs
index.py      job: read, cut, embed one leaf and replace its material
capture.py    write the snapshot of a note
convert.py    job: look at the conversion of a file, whose first look begins it
conversions.py  the folders in which conversions work
readable.py   which files can become text here
delete.py     hide subtrees now; job: remove them
purge.py      physical removal under the base lock
recovery.py   the sweep: settle lost runs, park what nobody does, send again what got lost
tidy.py       hourly: bytes that no row names
placing.py    bytes that go into raw/ with their rows, or not at all
origin.py     where a directory is, to the byte
run.py        one run of a job: checkpoints, and how it ends
claims.py     from a message's job id to a run
window.py     the ledger as dispatch sees it
"""
