package member

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/node/etcd"
)

// settledLog returns a write-ahead log with a snapshot up to an index, and further records.
func settledLog(index byte) []byte {
	log := walOf(7)
	log = log[:len(log)-64]
	for _, record := range [][]byte{
		{1 << 3, snapshotRecord, 3<<3 | 2, 2, 1 << 3, index, 0, 0},
		{1 << 3, 2, 3<<3 | 2, 2, 1 << 3, 200, 0, 0}, // an entry
	} {
		log = append(binary.LittleEndian.AppendUint64(log, 6|uint64(0x82)<<56), record...)
	}
	return append(log, make([]byte, 64)...)
}

const firstLog = "data/T/member/wal/0000000000000000-0000000000000000.wal"

// TestAnotherVersionBeginsAtASnapshot uses an etcd that makes a snapshot at its next
// start, as it does when told to.
func TestAnotherVersionBeginsAtASnapshot(t *testing.T) {
	h := newHarness(t)
	later := filepath.Join(t.TempDir(), "wal")
	if err := os.WriteFile(later, settledLog(20), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(string(h.cfg.Programs), "etcd-v3.5.35/usr/local/bin/etcd")
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	makes := `[ "$ETCD_SNAPSHOT_COUNT" = 1 ] && cp ` + later + ` "$ETCD_DATA_DIR/member/wal/0000000000000000-0000000000000000.wal"` + "\ntrap"
	if err := os.WriteFile(bin, bytes.Replace(text, []byte("trap"), []byte(makes), 1), 0o755); err != nil {
		t.Fatal(err)
	}
	m := h.open()
	o := founder()
	o.Version, o.Quarantined = "3.5.35", false
	h.run(m, o)
	running := h.started(1)[0]
	newer := etcd.Run{Token: "T", Seat: etcd.FounderSeat, Version: "3.6.12", Snapshot: 18}
	if err := m.Run(t.Context(), newer); err == nil || !isAlive(t, running) {
		t.Errorf("with a log that cannot be read: %v; etcd runs: %v", err, isAlive(t, running))
	}
	h.file(firstLog, settledLog(3))
	for i, version := range []string{"3.6.12", "3.5.35"} { // for the second one a sufficient snapshot already exists
		newer.Version = version
		h.run(m, newer)
		h.started(3 + i)
	}
	if starts, err := os.ReadFile(h.startsFile); err != nil || strings.Count(string(starts), "\n") != 4 {
		t.Errorf("etcd was started as in %s, %v", starts, err)
	}
	if index, err := snapshotOf(m.data.data("T")); err != nil || index != 20 {
		t.Errorf("the log is in a snapshot as far as %d, %v", index, err)
	}
}

// TestASnapshotThatIsCalledOffLeavesEtcdAsItWas covers a leader that goes away meanwhile.
func TestASnapshotThatIsCalledOffLeavesEtcdAsItWas(t *testing.T) {
	h := newHarness(t)
	counts := filepath.Join(t.TempDir(), "counts")
	bin := filepath.Join(string(h.cfg.Programs), "etcd-v3.5.35/usr/local/bin/etcd")
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	tells := `echo "$$ $ETCD_SNAPSHOT_COUNT" >> ` + counts + "\ntrap"
	if err := os.WriteFile(bin, bytes.Replace(text, []byte("trap"), []byte(tells), 1), 0o755); err != nil {
		t.Fatal(err)
	}
	m := h.open()
	o := founder()
	o.Version, o.Quarantined = "3.5.35", false
	h.run(m, o)
	first := h.started(1)[0]
	h.file(firstLog, settledLog(3))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	newer := etcd.Run{Token: "T", Seat: etcd.FounderSeat, Version: "3.6.12", Snapshot: 18}
	if err := m.Run(ctx, newer); !errors.Is(err, context.Canceled) || m.State().Version != o.Version {
		t.Errorf("%v, and etcd is %s", err, m.State().Version)
	}
	h.eventually("an etcd as the first", func() bool {
		text, _ := os.ReadFile(counts) // missing at first
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		last := strings.Fields(lines[len(lines)-1])
		return len(last) == 1 && last[0] != first && isAlive(t, last[0])
	})
}
