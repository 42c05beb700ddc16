package manager

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/store"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run the simulation of this seed only, with its log")
	runsFlag = flag.Int("runs", 1000, "number of simulations")
)

// TestSimulation lets everything go wrong that can: managers die before and after every action,
// answers are lost, leaders overlap, networks are partitioned, the store is slow or
// unreachable, clocks differ, machines are off, disks are emptied and machines are replaced as
// long as a majority of the data is left, the spec changes or is lost, and backups are
// restored, including damaged ones. Afterwards, with all faults repaired, there is one cluster
// of as many healthy members as are wanted, with the wanted version and every write that was
// acknowledged, and no request is left. Meanwhile no cluster has two founders, no client sees a
// revision lower than one before it, and no request is carried out twice. -runs sets the number
// of simulations, and -seed repeats a failed one, with its log.
func TestSimulation(t *testing.T) {
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = nil
		for s := range *runsFlag {
			seeds = append(seeds, uint64(s+1))
		}
	}
	for part := range slices.Chunk(seeds, max(1, (len(seeds)+3)/4)) {
		t.Run(fmt.Sprintf("from %d", part[0]), func(t *testing.T) {
			t.Parallel()
			scratch := t.TempDir()
			for _, seed := range part {
				if broken := simulate(t.Context(), seed, scratch, *seedFlag != 0); len(broken) > 0 {
					t.Fatalf("seed %d (go test -run Simulation -seed %d): %q", seed, seed, broken)
				}
			}
		})
	}
}

func simulate(ctx context.Context, seed uint64, scratch string, verbose bool) []string {
	w := newWorld(seed)
	w.scratch = scratch
	for _, id := range []string{"a", "b", "c", "d", "e"}[:3+seed%3] {
		w.add(id)
	}
	if verbose {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Duration("t", w.now.Sub(time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)))
			}
			return a
		}}))
		for _, m := range w.machines {
			m.boot()
		}
	}
	w.spec = etcd.Spec{MemberCount: []int{3, 3, 1}[seed%3], EtcdVersion: "3.5.35"}
	if err := etcd.WriteSpec(ctx, w.objects, w.spec); err != nil {
		return []string{err.Error()}
	}
	w.faults = true
	for i := range 800 {
		w.disturb(ctx)
		ids := slices.Sorted(maps.Keys(w.machines))
		w.tick(ids[w.rng.IntN(len(ids))])
		w.write(ids[w.rng.IntN(len(ids))], fmt.Sprint("w", i))
		w.now = w.now.Add(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
		if len(w.violations) > 0 {
			return w.violations
		}
	}
	return w.mend(ctx)
}

// disturb sometimes causes a fault, or changes the spec.
func (w *world) disturb(ctx context.Context) {
	ids := slices.Sorted(maps.Keys(w.machines))
	m := w.machines[ids[w.rng.IntN(len(ids))]]
	switch w.rng.IntN(90) {
	case 0:
		m.crashed = true
	case 1:
		m.off = true
	case 2, 3, 4:
		if m.off {
			m.off, m.crashed = false, true
		}
	case 5:
		m.side = w.rng.IntN(2)
	case 6, 7:
		for _, m := range w.machines {
			m.side = 0
		}
	case 8:
		if w.expendable(m) {
			w.log.Info("WIPE", "machine", m.id)
			m.state, m.data, m.crashed = etcd.State{}, nil, true
		}
	case 9:
		if w.expendable(m) {
			w.log.Info("REPLACE", "machine", m.id)
			m.off = true // what its manager is about to do has no effect
			delete(w.machines, m.id)
			w.add(w.freeName(m.id))
		}
	case 10:
		w.spec = etcd.Spec{MemberCount: []int{1, 3, 5}[w.rng.IntN(3)], EtcdVersion: []string{"3.5.35", "3.6.12", "3.7.0"}[w.rng.IntN(3)]}
		for len(w.machines) < w.spec.MemberCount {
			w.add(w.freeName(""))
		}
		w.seatsNamed = w.seatsNamed || w.rng.IntN(2) == 0
		w.choose()
		if err := w.writeSpec(ctx); err != nil {
			w.breaks("write the spec: %v", err)
		}
	case 11:
		w.restore(ctx)
	case 12:
		w.storeOff = true
	case 13, 14, 15:
		w.storeBack()
	case 16:
		if err := w.loseSpec(ctx); err != nil {
			w.breaks("remove the spec: %v", err)
		}
	case 18:
		task := []etcd.Task{etcd.Defragment, etcd.DisarmAlarms, etcd.Drill}[w.rng.IntN(3)]
		if err := etcd.Ask(ctx, w.objects, etcd.Request{ID: fmt.Sprint("R", w.ticks), Task: task, At: w.now}); err != nil && !fault.Is(err, fault.Conflict) {
			w.breaks("ask for %s: %v", task, err)
		}
	case 17:
		m.crashed, m.ahead = true, time.Duration(w.rng.IntN(7200)-3600)*time.Second
	}
}

// choose selects which machines should have the members, including some that do not exist yet.
func (w *world) choose() {
	w.seats = slices.Sorted(maps.Keys(w.machines))
	w.rng.Shuffle(len(w.seats), func(i, j int) { w.seats[i], w.seats[j] = w.seats[j], w.seats[i] })
	w.seats = w.seats[:w.spec.MemberCount]
	if id := w.freeName(""); w.rng.IntN(3) == 0 && id != "" {
		w.seats[0] = id
		w.add(id)
	}
}

// writeSpec writes the spec, as an update does; the seats only once they have been
// written for the first time.
func (w *world) writeSpec(ctx context.Context) error {
	var err error
	if w.seatsNamed {
		w.log.Info("SEATS", "members", w.seats)
		err = etcd.WriteSeats(ctx, w.objects, w.seats)
	}
	return errors.Join(err, etcd.WriteSpec(ctx, w.objects, w.spec))
}

// restore sometimes requests the restore of a backup: of the latest, or of one of those before it.
func (w *world) restore(ctx context.Context) {
	all, err := etcd.Backups(ctx, w.objects)
	if err != nil || len(all) == 0 || w.rng.IntN(3) != 0 {
		return
	}
	b := all[len(all)-1]
	if w.rng.IntN(2) == 0 {
		b = all[w.rng.IntN(len(all))]
	}
	if b.Complete {
		damaged := w.rng.IntN(4) == 0 && w.damage(ctx, b.Name)
		if _, err := etcd.RequestRestore(ctx, w.objects, b.Name, w.now); err == nil {
			w.log.Info("RESTORE", "backup", b.Name)
			if !damaged {
				w.restores++
			}
		}
	}
}

// damage damages a backup that is about to be restored and that no manager has verified.
func (w *world) damage(ctx context.Context, name string) bool {
	c, err := etcd.ReadControl(ctx, w.objects)
	if err != nil || len(c.Commands) > 0 || c.Record != nil && c.Record.Phase == etcd.Forming {
		return w.damaged[name]
	}
	w.damaged[name] = true
	w.log.Info("DAMAGE", "backup", name)
	content := []byte("damaged")
	if w.rng.IntN(2) == 0 { // which only its digest reveals
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, err := zip.Write(packWrites(7, []string{"of another cluster"}))
		if err := errors.Join(err, zip.Close()); err != nil {
			w.breaks("damage a backup: %v", err)
		}
		content = packed.Bytes()
	}
	_, err = w.objects.Put(ctx, name+etcd.SnapshotName, content, store.PutOptions{})
	if err != nil {
		w.breaks("damage a backup: %v", err)
	}
	return true
}

// storeBack makes the store reachable for all machines again.
func (w *world) storeBack() {
	if w.storeOff {
		w.storeOff, w.storeOn = false, w.now
	}
}

// loseSpec removes the spec from the store once it was running; it is there again
// when the faults end.
func (w *world) loseSpec(ctx context.Context) error {
	if w.lastWritten == "" {
		return nil
	}
	return w.objects.Delete(ctx, "control/etcd-cluster-spec", store.DeleteOptions{})
}

// expendable reports whether a machine's disk can be lost without losing a majority of the data.
func (w *world) expendable(m *machine) bool {
	for _, c := range w.clusters {
		voters, left := 0, 0
		for _, x := range c.members {
			if x.learner {
				continue
			}
			voters++
			h := w.machines[x.peer]
			if h != nil && h != m && h.state.Token == c.token && (h.state.Seat == x.id || h.state.Seat == etcd.FounderSeat && x.id == "1") {
				left++
			}
		}
		if m.state.Token == c.token && left <= voters/2 {
			return false
		}
	}
	return true
}

// freeName returns a name for a new machine: the same as before, or one that is not in use.
func (w *world) freeName(before string) string {
	if before != "" && w.rng.IntN(2) == 0 {
		return before
	}
	for i := range 9 {
		if id := string(rune('a' + i)); w.machines[id] == nil && id != before {
			return id
		}
	}
	return before
}

// mend ends every fault and checks that the world reaches the wanted state.
func (w *world) mend(ctx context.Context) []string {
	w.faults = false
	w.storeBack()
	if err := w.writeSpec(ctx); err != nil {
		return []string{err.Error()}
	}
	for _, id := range w.seats {
		if w.machines[id] == nil {
			w.add(id)
		}
	}
	for _, m := range w.machines {
		m.crashed = m.crashed || m.off
		m.off, m.side = false, 0
	}
	unmet := []string{"no round was done"}
	for range 400 {
		if unmet = w.unmetConditions(ctx); len(unmet) == 0 || len(w.violations) > 0 {
			break
		}
		// A restore has brought back the spec from the time when it was requested.
		if c, err := etcd.ReadControl(ctx, w.objects); err == nil && len(c.Commands) == 0 && c.Spec != nil && *c.Spec != w.spec {
			if err := w.writeSpec(ctx); err != nil {
				return []string{err.Error()}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(w.machines)) {
			w.tick(id)
		}
		w.now = w.now.Add(2 * time.Second)
	}
	return append(w.violations, unmet...)
}

// unmetConditions lists how the world differs from the wanted state.
func (w *world) unmetConditions(ctx context.Context) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	control, err := etcd.ReadControl(ctx, w.objects)
	if err != nil || control.Record == nil || control.Spec == nil {
		return []string{fmt.Sprintf("no record: %v", err)}
	}
	c, voters := w.clusters[control.Record.Token], 0
	if c == nil {
		return []string{"no cluster"}
	}
	for _, x := range c.members {
		m := w.machines[x.peer]
		if control.Seats != nil && !slices.Contains(control.Seats, x.peer) {
			note("member %s of %s is none of %v", x.id, x.peer, control.Seats)
		}
		switch {
		case x.learner:
			note("member %s is still a learner", x.id)
		case m == nil || w.active(c, x, m) == nil:
			note("member %s of %s is not healthy", x.id, x.peer)
		case m.state.Version != control.Spec.EtcdVersion:
			note("member %s runs %s, not %s", x.id, m.state.Version, control.Spec.EtcdVersion)
		case m.state.Quarantined:
			note("member %s is quarantined", x.id)
		default:
			voters++
		}
	}
	for _, m := range w.machines {
		if m.running && !slices.ContainsFunc(c.members, func(x *member) bool { return w.active(c, x, m) == m }) {
			note("etcd runs at %s for nothing", m.id)
		}
	}
	if voters != control.Spec.MemberCount {
		note("%d members, not %d", voters, control.Spec.MemberCount)
	}
	for _, c := range control.Commands {
		note("command %s is left", c.Key)
	}
	if control.Request != nil {
		note("the request for %s is left", control.Request.Task)
	}
	if !control.Created {
		note("the mark of its creation is not there")
	}
	for _, value := range w.written[c.token] {
		if !slices.Contains(c.log, value) {
			note("the write %s is lost", value)
		}
	}
	return out
}
