package etcd

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the decisions in testdata")

// TestStep reads situations and the resulting decisions from testdata/*.txtar. A situation is a list
// of lines:
//
//	spec COUNT VERSION           the spec
//	seats NAME...                the peers that should be members
//	created                      the mark exists
//	record TOKEN PHASE FOUNDER[=MEMBER] VERSION [BACKUP] [COMMAND]
//	command KEY BACKUP VERSION COUNT VERSION [unusable]
//	failing                      the last decision failed
//	peer NAME [TOKEN/SEAT VERSION [quarantined] [stopped]]
//	lacks NAME                   the peer has no program of etcd 3.6
//	member ID NAME [healthy] [leader] [learner] [runs=VERSION] [log=INDEX] [served=REVISION] [reports=ERROR] [storage=VERSION] [downgrade=VERSION] [at=URL] [size=BYTES] [alarm=ALARM]
//	backup AGE [AGE] [empty]     the latest backup, since when the leader knows of it, and whether it has no keys
//	wanted AGE                   a backup newer than this is requested
//	served REVISION              according to the record
//	refused BACKUP COMMAND       the last request that was withdrawn
//	founded AGE                  of the record's cluster; long ago by default
//	asked TASK [NAME...]         a task, and the members that are already defragmented
//	drilled                      the drill has ended
//	nudged ID                    the member's etcd was restarted
//	missing AGE WHAT             since when something is missing
func TestStep(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range a.Files {
			in, want, _ := strings.Cut(string(f.Data), "=>\n")
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+f.Name, func(t *testing.T) {
				got := decide(t, in)
				if *update {
					a.Files[i].Data = []byte(in + "=>\n" + got)
				} else if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// decide prints the decision for a situation.
func decide(t *testing.T, in string) string {
	m, o := situationOf(t, in)
	_, d := Step(DefaultPolicy(), m, o)
	var b strings.Builder
	if d.Rule == "" {
		return "nothing\n"
	}
	fmt.Fprintf(&b, "%s", d.Rule)
	if d.Together {
		b.WriteString(" (together)")
	}
	if d.Soon {
		b.WriteString(" (soon)")
	}
	if d.Note != "" {
		b.WriteString(": " + d.Note)
	}
	b.WriteString("\n")
	for _, a := range d.Actions {
		b.WriteString("  " + a.String() + "\n")
	}
	return b.String()
}

func situationOf(t *testing.T, in string) (Memory, Observed) {
	t.Helper()
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	m := Memory{Missing: map[string]time.Time{}, Nudged: map[string]bool{}}
	o := Observed{Now: now, Token: "NEW"}
	ago := func(s string) time.Time {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return now.Add(-d)
	}
	for line := range strings.Lines(in) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "spec":
			o.Spec = &Spec{MemberCount: number(t, f[1]), EtcdVersion: f[2]}
		case "seats":
			o.Seats = f[1:]
		case "created":
			o.Created = true
		case "record":
			founder, member, _ := strings.Cut(f[3], "=")
			o.Record = &Record{Token: f[1], Phase: Phase(f[2]), Founder: founder, FounderMember: member, Version: f[4]}
			if len(f) > 6 {
				o.Record.Backup, o.Record.Command = f[5], f[6]
			}
		case "command":
			o.Commands = append(o.Commands, Command{Key: f[1], Backup: f[2], BackupVersion: f[3], Spec: Spec{MemberCount: number(t, f[4]), EtcdVersion: f[5]}})
			if len(f) > 6 {
				o.Commands[len(o.Commands)-1].Unusable = "it is damaged"
			}
		case "failing":
			o.Failing = true
		case "peer":
			o.Peers = append(o.Peers, peerOf(f))
		case "lacks":
			i := slices.IndexFunc(o.Peers, func(p Peer) bool { return p.ID == f[1] })
			o.Peers[i].Versions = []string{"3.5.31"}
		case "member":
			o.Members = append(o.Members, memberOf(t, f))
		case "backup":
			o.BackupEmpty = f[len(f)-1] == "empty"
			if o.BackupEmpty {
				f = f[:len(f)-1]
			}
			o.LastBackup, o.BackupSeen = ago(f[1]), ago(f[len(f)-1])
		case "served":
			o.Record.Revision = int64(number(t, f[1]))
		case "refused":
			o.Refused = &Refusal{Backup: f[1], Command: f[2], Why: "it was damaged"}
		case "wanted":
			after := ago(f[1])
			o.BackupAfter = &after
		case "founded":
			o.Record.Founded = ago(f[1]).Unix()
		case "asked":
			o.Request, o.Answer = &Request{ID: "R", Task: Task(f[1]), Backup: "B"}, &Answer{Request: "R"}
			for _, name := range f[2:] {
				o.Answer.Members = append(o.Answer.Members, DefragmentResult{Name: name})
			}
		case "drilled":
			o.DrillResult = &DrillResult{Backup: "B"}
		case "nudged":
			m.Nudged[f[1]] = true
		case "missing":
			m.Missing[strings.Join(f[2:], " ")] = ago(f[1])
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return m, o
}

func peerOf(f []string) Peer {
	p := Peer{ID: f[1], PeerURLs: []string{"https://" + f[1] + ":2380"}, Versions: []string{"3.5.20", "3.5.31", "3.6.12", "3.7.0"}}
	if len(f) > 2 {
		token, seat, _ := strings.Cut(f[2], "/")
		p.State = State{Token: token, Seat: seat, Version: f[3], Started: true,
			Quarantined: slices.Contains(f, "quarantined"), Stopped: slices.Contains(f, "stopped")}
	}
	return p
}

func memberOf(t *testing.T, f []string) Member {
	m := Member{ID: f[1], Name: f[2], PeerURLs: []string{"https://" + f[2] + ":2380"}, Version: "3.6.12",
		Healthy: slices.Contains(f, "healthy"), Leader: slices.Contains(f, "leader"), Learner: slices.Contains(f, "learner")}
	for _, x := range f[3:] {
		switch name, value, _ := strings.Cut(x, "="); name {
		case "unnamed":
			m.Name = ""
		case "runs":
			m.Version = value
		case "reports":
			m.Errors = append(m.Errors, value)
		case "log":
			m.Index = uint64(number(t, value))
		case "served":
			m.Revision = int64(number(t, value))
		case "storage":
			m.Storage = value
		case "downgrade":
			m.Downgrade = value
		case "size":
			m.Size = int64(number(t, value))
		case "alarm":
			m.Alarms = append(m.Alarms, value)
		case "at":
			m.PeerURLs = []string{value}
		}
	}
	return m
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestABackupSaysWhatTheClusterIs covers a cluster without a spec, too.
func TestABackupSaysWhatTheClusterIs(t *testing.T) {
	const running = "created\nrecord T running a=1 3.6.12\npeer a T/founder 3.6.12\nmember 1 a healthy leader\nbackup 16m\n"
	for in, want := range map[string]Spec{running: {1, "3.6.12"}, "spec 3 3.7.0\n" + running: {3, "3.7.0"}} {
		m, o := situationOf(t, in)
		_, d := Step(DefaultPolicy(), m, o)
		if len(d.Actions) == 0 {
			t.Fatalf("nothing is done in\n%s", in)
		}
		if b, ok := d.Actions[0].(TakeBackup); !ok || b.Spec != want {
			t.Errorf("%+v is done, with %v wanted, in\n%s", d.Actions[0], want, in)
		}
	}
}
