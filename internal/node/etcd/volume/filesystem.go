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

// margin is how much at either end of a disk has to be empty for it to count as blank, in bytes:
// it holds partition tables, both copies of GPT's, and the headers of file systems, volume
// managers and encryption.
const margin = 4 << 20

// errUnknown says that a disk holds what is not understood. It must not be formatted.
var errUnknown = errors.New("the disk is not blank, and holds no file system that is known here")

// filesystemOf returns the kind of file system on a disk, and "" for a blank one. It knows the
// signatures of ext2, ext3 and ext4 (which one driver mounts) and of xfs.
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
	return nil, errors.Join(errors.New("the disk cannot be read"), err)
}

func blank(data []byte) bool { return len(bytes.TrimLeft(data, "\x00")) == 0 }
