package member

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// The parts of etcd's write-ahead log that are read: a record is 8 bytes, the lower 7 of which are
// the length of the message Record that follows (little endian), and each file begins with a
// checksum and the metadata. Field numbers are from the format descriptions of walpb and
// etcdserverpb.
const (
	recordType, recordData, metadataNodeID, snapshotIndex protowire.Number = 1, 3, 1, 1

	metadataRecord, snapshotRecord = 1, 5
	// maxHead limits the size of the first two records of a file, and maxRecord the size of
	// every record, in bytes.
	maxHead, maxRecord = 1 << 16, 1 << 26
)

// logs returns the files of the write-ahead log of etcd's data, oldest first.
func logs(data string) ([]string, error) {
	dir := filepath.Join(data, "member", "wal")
	files, err := os.ReadDir(dir) // in order; the name starts with the number of the file
	var out []string
	for _, f := range files {
		if filepath.Ext(f.Name()) == ".wal" {
			out = append(out, filepath.Join(dir, f.Name()))
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New("there is no write-ahead log")
	}
	return out, err
}

// memberOf returns the ID of the member whose data are in a folder, in
// hexadecimal, as etcd prints it.
func memberOf(data string) (string, error) {
	files, err := logs(data)
	if err != nil {
		return "", err
	}
	log, err := os.Open(files[0])
	if err != nil {
		return "", err
	}
	defer log.Close() // only read
	for range 2 {
		kind, message, err := readRecord(log, maxHead)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", log.Name(), err)
		}
		if kind != metadataRecord {
			continue
		}
		id, err := number(message, metadataNodeID)
		if err == nil && id != 0 {
			return strconv.FormatUint(id, 16), nil
		}
	}
	return "", fmt.Errorf("%s does not begin as a write-ahead log does", log.Name())
}

// snapshotOf returns the position in etcd's log of its last snapshot, where etcd starts next
// time. The snapshot's record is in one of the last two files; without one, the result is 0.
func snapshotOf(data string) (index uint64, err error) {
	files, err := logs(data)
	for _, file := range files[max(0, len(files)-2):] {
		i, failed := snapshotIn(file)
		index, err = max(index, i), errors.Join(err, failed)
	}
	return index, err
}

// snapshotIn reads one file, as far as etcd has written it.
func snapshotIn(file string) (index uint64, err error) {
	log, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer log.Close() // only read
	for r := bufio.NewReaderSize(log, 1<<20); ; {
		kind, message, end := readRecord(r, maxRecord)
		if end != nil {
			return index, nil
		}
		if kind == snapshotRecord {
			i, err := number(message, snapshotIndex)
			if err != nil {
				return index, fmt.Errorf("read %s: %w", file, err)
			}
			index = max(index, i)
		}
	}
}

// number returns the number in a field of a message; 0 if it is left out.
func number(message []byte, of protowire.Number) (n uint64, err error) {
	err = eachField(message, func(f field) error {
		if f.number == of {
			n = f.value
		}
		return nil
	})
	return n, err
}

// readRecord reads one record of a write-ahead log, of at most longest bytes.
func readRecord(r io.Reader, longest uint64) (kind uint64, message []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	word := binary.LittleEndian.Uint64(head[:])
	size := word & (1<<56 - 1)
	if size == 0 || size > longest {
		return 0, nil, fmt.Errorf("a record of %d bytes", size)
	}
	record := make([]byte, (size+7)&^7) // padded to whole words
	if _, err := io.ReadFull(r, record); err != nil {
		return 0, nil, err
	}
	err = eachField(record[:size], func(f field) error {
		switch f.number {
		case recordType:
			kind = f.value
		case recordData:
			message = f.text
		}
		return nil
	})
	return kind, message, err
}
