package volume

import (
	"bytes"
	"errors"
	"io"
)

// Filesystem kinds, as mount(2) names them.
const (
	ext4 = "ext4"
	xfs  = "xfs"
)

// margin is how many bytes at either end of a disk must be zero for it to count as blank: they
// contain partition tables, including both copies of GPT's, and the headers of file systems,
// volume managers and encryption.
const margin = 4 << 20

// errUnknown means that the content of a disk is not recognized. The disk must not be formatted.
var errUnknown = errors.New("the disk is not blank, but contains no supported file system")

// filesystemOf returns the kind of file system on a disk, and "" for a blank one. It
// recognizes ext2, ext3 and ext4 (which one driver mounts) and xfs.
func filesystemOf(disk io.ReaderAt, size int64) (string, error) {
	head, err := part(disk, 0, min(size, margin))
	if err != nil {
		return "", err
	}
	at := func(offset int, signature string) bool {
		return len(head) >= offset+len(signature) && string(head[offset:offset+len(signature)]) == signature
	}
	switch {
	case at(0, "XFSB"):
		return xfs, nil
	case at(0x438, "\x53\xef"):
		return ext4, nil
	}
	tail, err := part(disk, max(0, size-margin), min(size, margin))
	if err != nil {
		return "", err
	}
	if size == 0 || !blank(head) || !blank(tail) {
		return "", errUnknown
	}
	return "", nil
}

func part(disk io.ReaderAt, from, size int64) ([]byte, error) {
	out := make([]byte, size)
	n, err := disk.ReadAt(out, from)
	if int64(n) == size {
		return out, nil
	}
	return nil, errors.Join(errors.New("cannot read the disk"), err)
}

func blank(data []byte) bool { return len(bytes.TrimLeft(data, "\x00")) == 0 }
