package member

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"kops.local/kops/internal/fault"
)

// adopt takes over the data that kOps' manager has left: the member goes on as who
// it is. What does not fit is refused, and nothing on the disk is changed.
func (m *Member) adopt(k kept, theirs []node) (kept, error) {
	if k.Token == "" {
		token, err := m.data.anyBegun()
		if err == nil && token != "" {
			err = fault.Wrap(fault.Permanent, fmt.Errorf("%s holds data of cluster %s, of which %s says nothing", m.cfg.Dir, token, m.data.state()),
				"nothing on the disk was changed; bring the file back, or if the data are not needed, remove them: then the member gets those of the others, or of a back-up")
		}
		return k, err
	}
	i := slices.IndexFunc(theirs, func(n node) bool { return n.name == m.cfg.ID })
	if i < 0 {
		var names []string
		for _, n := range theirs {
			names = append(names, n.name)
		}
		return kept{}, fault.Wrap(fault.Permanent, fmt.Errorf("the disk %s is of a member of cluster %s, which knows %q and not %s", m.cfg.Dir, k.Token, names, m.cfg.ID),
			"attach the disk to the machine of its member, or name the member with --peer-id")
	}
	// Where TLS was turned on later, or off altogether, the flag and the URLs may differ.
	tls := secure(m.cfg.PeerURLs)
	if n := theirs[i]; tls && !n.tls || !tls && n.tls && secure(n.peerURLs) {
		return kept{}, fault.Wrap(fault.Permanent, fmt.Errorf("the members of cluster %s reach each other with %s, and %s is to do so with %s", k.Token, protocol(theirs[i].tls), m.cfg.ID, protocol(tls)),
			"nothing on the disk was changed; have --peer-urls begin with "+protocol(theirs[i].tls)+", or let kOps' etcd-manager bring all members to "+protocol(tls)+" first")
	}
	k.Started = true
	if m.data.lost(k) {
		return k, nil
	}
	seat, err := memberOf(m.data.data(k.Token))
	if err != nil {
		return kept{}, fault.Wrap(fault.Permanent, fmt.Errorf("whose data are in %s is not known: %w", m.data.data(k.Token), err),
			"nothing on the disk was changed; if it is damaged, and not needed, empty it: then the member gets the data of the others, or of a back-up")
	}
	k.Seat = seat
	m.cfg.Log.Info("the data that kOps' etcd-manager has left are taken over", "token", k.Token, "seat", k.Seat, "version", k.Version)
	return k, nil
}

func protocol(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}

// What is read of etcd's write-ahead log: a record is 8 bytes, the lower 7 of which are
// the length of the message Record that follows (little endian), and each file begins
// with a checksum and the metadata. Numbers are those of walpb's and etcdserverpb's
// descriptions of their formats.
const (
	recordType, recordData, metadataNodeID protowire.Number = 1, 3, 1

	metadataRecord = 1
	// maxRecord bounds the first two records of a file, in bytes.
	maxRecord = 1 << 16
)

// memberOf returns the identifier of the member whose data are in a folder, in
// hexadecimal, as etcd prints it.
func memberOf(data string) (string, error) {
	dir := filepath.Join(data, "member", "wal")
	files, err := os.ReadDir(dir) // in order; the name begins with the number of the file
	i := slices.IndexFunc(files, func(f fs.DirEntry) bool { return filepath.Ext(f.Name()) == ".wal" })
	if err == nil && i < 0 {
		err = errors.New("there is no write-ahead log")
	}
	if err != nil {
		return "", err
	}
	log, err := os.Open(filepath.Join(dir, files[i].Name()))
	if err != nil {
		return "", err
	}
	defer log.Close() // only read
	for range 2 {
		kind, message, err := readRecord(log)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", log.Name(), err)
		}
		if kind != metadataRecord {
			continue
		}
		id := uint64(0)
		err = eachField(message, func(f field) error {
			if f.number == metadataNodeID {
				id = f.value
			}
			return nil
		})
		if err == nil && id != 0 {
			return strconv.FormatUint(id, 16), nil
		}
	}
	return "", fmt.Errorf("%s does not begin as a write-ahead log does", log.Name())
}

// readRecord reads one record of a write-ahead log.
func readRecord(r io.Reader) (kind uint64, message []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	word := binary.LittleEndian.Uint64(head[:])
	size := word & (1<<56 - 1)
	if size == 0 || size > maxRecord {
		return 0, nil, fmt.Errorf("a record of %d bytes", size)
	}
	record := make([]byte, (size+7)&^7) // of whole words
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
