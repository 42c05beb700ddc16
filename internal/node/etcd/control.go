package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// The objects of an etcd cluster's backup store, with kOps' names. Only our own are below .kops/.
const (
	specKey     = "control/etcd-cluster-spec"
	createdKey  = "control/etcd-cluster-created"
	commandName = "/_command.json"
	recordKey   = ".kops/cluster"
	requestKey  = ".kops/backup"
	refusedKey  = ".kops/refused"
	seatsKey    = ".kops/members"
	askedKey    = ".kops/request"
	answerKey   = ".kops/answer"
	statusKey   = ".kops/status"

	// maxCommands is the maximum number of commands in one second.
	maxCommands = 100
)

// OtherClusterRemedy is the remedy if the store names one cluster, and disks have the
// data of another, for example because kOps' manager has restored a backup meanwhile.
const OtherClusterRemedy = "if the data belong to the right cluster, remove " + recordKey + " from the backup store; otherwise restore a backup"

// Control is the content of a cluster's store.
type Control struct {
	Spec    *Spec
	Created bool
	Record  *Record
	// Seats are the peers that should be members; nil if that is not specified.
	Seats    []string
	Commands []Command // oldest first
	// Refused is the last request that was withdrawn; nil for none.
	Refused *Refusal
	// BackupAfter requests a backup that is newer than this; nil for none.
	BackupAfter *time.Time
	// Request and Answer are the current maintenance request, and the last answer; nil for none.
	Request *Request
	Answer  *Answer

	recordVersion store.Version
}

// ReadControl reads the objects that govern a cluster from its backup store.
func ReadControl(ctx context.Context, s store.Store) (Control, error) {
	var c Control
	var err error
	if c.Spec, _, err = read[Spec](ctx, s, specKey); err != nil {
		return Control{}, err
	}
	if c.Record, c.recordVersion, err = read[Record](ctx, s, recordKey); err != nil {
		return Control{}, err
	}
	if c.Refused, err = ReadRefusal(ctx, s); err != nil {
		return Control{}, err
	}
	if c.Seats, err = ReadSeats(ctx, s); err != nil {
		return Control{}, err
	}
	if c.Request, c.Answer, err = readRequest(ctx, s); err != nil {
		return Control{}, err
	}
	request, _, err := read[requestFile](ctx, s, requestKey)
	if err != nil {
		return Control{}, err
	}
	if request != nil {
		c.BackupAfter = &request.After
	}
	for info, err := range s.List(ctx, "control/") {
		switch {
		case err != nil:
			return Control{}, fmt.Errorf("read the commands for etcd: %w", err)
		case info.Key == createdKey:
			c.Created = true
		case strings.HasSuffix(info.Key, commandName):
			command, err := readCommand(ctx, s, info.Key)
			if err != nil {
				return Control{}, err
			}
			if command != nil {
				if c.Refused != nil && c.Refused.Command == command.Key { // the manager that refused it died before it removed it
					command.Unusable = c.Refused.Why
				}
				c.Commands = append(c.Commands, *command)
			}
		}
	}
	slices.SortStableFunc(c.Commands, func(a, b Command) int { return a.Time.Compare(b.Time) })
	return c, nil
}

// ReadRecord reads only the record; nil if there is none.
func ReadRecord(ctx context.Context, s store.Store) (*Record, error) {
	r, _, err := read[Record](ctx, s, recordKey)
	return r, err
}

// SaveRecord replaces the record that was read; the error is of class
// fault.Conflict if it was replaced since.
func (c Control) SaveRecord(ctx context.Context, s store.Store, r Record) error {
	if err := write(ctx, s, recordKey, r, store.PutOptions{IfAbsent: c.Record == nil, IfVersion: c.recordVersion}); err != nil {
		return fmt.Errorf("write the record of the etcd cluster: %w", err)
	}
	return nil
}

// WriteCreated writes the mark of a created cluster, unless it exists.
func WriteCreated(ctx context.Context, s store.Store, now time.Time) error {
	text := fmt.Sprintf("{\n  \"timestamp\": %d\n}", now.UnixNano())
	_, err := s.Put(ctx, createdKey, []byte(text), store.PutOptions{IfAbsent: true})
	if err != nil && !fault.Is(err, fault.Conflict) {
		return fmt.Errorf("mark the etcd cluster as created: %w", err)
	}
	return nil
}

// WriteSpec writes a cluster's spec.
func WriteSpec(ctx context.Context, s store.Store, spec Spec) error {
	if err := write(ctx, s, specKey, spec, store.PutOptions{}); err != nil {
		return fmt.Errorf("write the spec of the etcd cluster: %w", err)
	}
	return nil
}

// seatsFile lists the peers that should be members.
type seatsFile struct {
	Members []string `json:"members"`
}

// ReadSeats reads which peers should be members; nil if that is not specified.
func ReadSeats(ctx context.Context, s store.Store) ([]string, error) {
	f, _, err := read[seatsFile](ctx, s, seatsKey)
	if f == nil {
		return nil, err
	}
	return f.Members, err
}

// WriteSeats records which peers should be members. It must be called before the spec with
// their number is written.
func WriteSeats(ctx context.Context, s store.Store, peers []string) error {
	if err := write(ctx, s, seatsKey, seatsFile{peers}, store.PutOptions{}); err != nil {
		return fmt.Errorf("write the names of the members of the etcd cluster: %w", err)
	}
	return nil
}

// DeleteCommand removes a command.
func DeleteCommand(ctx context.Context, s store.Store, key string) error {
	if err := s.Delete(ctx, key, store.DeleteOptions{}); err != nil {
		return fmt.Errorf("remove the command %s: %w", key, err)
	}
	return nil
}

// WriteRefusal records why a command is withdrawn.
func WriteRefusal(ctx context.Context, s store.Store, r Refusal) error {
	if err := write(ctx, s, refusedKey, r, store.PutOptions{}); err != nil {
		return fmt.Errorf("record why %s is not restored: %w", r.Backup, err)
	}
	return nil
}

// ReadRefusal reads which request was withdrawn last, and why; nil for none.
func ReadRefusal(ctx context.Context, s store.Store) (*Refusal, error) {
	return readSound[Refusal](ctx, s, refusedKey)
}

// DeleteRefusal removes the object of WriteRefusal.
func DeleteRefusal(ctx context.Context, s store.Store) error {
	if err := s.Delete(ctx, refusedKey, store.DeleteOptions{}); err != nil {
		return fmt.Errorf("remove %s: %w", refusedKey, err)
	}
	return nil
}

// RequestRestore asks the managers of a cluster to restart it from a backup of its store. They do
// so within about a minute; until then the command is an object in the store, whose key is
// returned. If the backup does not exist, the error has class fault.Gone.
func RequestRestore(ctx context.Context, s store.Store, backup string, now time.Time) (key string, err error) {
	meta, err := ReadMeta(ctx, s, backup)
	if err != nil {
		return "", err
	}
	spec, _, err := read[Spec](ctx, s, specKey)
	if err != nil {
		return "", err
	}
	if spec == nil {
		spec = &meta.Spec
	}
	c := commandFile{Timestamp: stamp(now.UnixNano()), RestoreBackup: &restoreFile{ClusterSpec: *spec, Backup: backup}}
	for n := range maxCommands {
		key = "control/" + BackupName(now, n) + commandName
		if err = write(ctx, s, key, c, store.PutOptions{IfAbsent: true}); !fault.Is(err, fault.Conflict) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("write the command to restore %s: %w", backup, err)
	}
	return key, DeleteRefusal(ctx, s) // of an earlier request
}

// requestFile requests a backup that is newer than the newest that its writer knew of. So it is
// fulfilled once, even if the clocks of writer and managers differ.
type requestFile struct {
	After time.Time `json:"after,omitzero"`
}

// RequestBackup asks the managers of a cluster for a backup that is newer than all
// credible ones in its store. They take it when they next read the store.
func RequestBackup(ctx context.Context, s store.Store, now time.Time) error {
	all, err := Backups(ctx, s)
	if err != nil {
		return err
	}
	var f requestFile
	for _, b := range OnlyCredible(all, now) {
		if b.Complete {
			f.After = b.Time
		}
	}
	if err := write(ctx, s, requestKey, f, store.PutOptions{}); err != nil {
		return fmt.Errorf("ask for a backup: %w", err)
	}
	return nil
}

// commandFile is a command as stored.
type commandFile struct {
	Timestamp     stamp        `json:"timestamp"`
	RestoreBackup *restoreFile `json:"restoreBackup,omitempty"`
}

type restoreFile struct {
	ClusterSpec Spec   `json:"clusterSpec"`
	Backup      string `json:"backup"`
}

// readCommand reads a command; nil if it was removed meanwhile, or is of an unknown kind.
func readCommand(ctx context.Context, s store.Store, key string) (*Command, error) {
	f, _, err := read[commandFile](ctx, s, key)
	if err != nil || f == nil || f.RestoreBackup == nil {
		return nil, err
	}
	c := &Command{Key: key, Time: time.Unix(0, int64(f.Timestamp)), Spec: f.RestoreBackup.ClusterSpec, Backup: f.RestoreBackup.Backup}
	meta, err := ReadMeta(ctx, s, c.Backup)
	switch {
	case IsUnusable(err):
		c.Unusable = err.Error()
	case err != nil:
		return nil, err
	}
	c.BackupVersion = meta.EtcdVersion
	return c, nil
}

// read decodes a JSON object of the store; nil if it does not exist.
func read[T any](ctx context.Context, s store.Store, key string) (*T, store.Version, error) {
	data, version, err := s.Get(ctx, key)
	if fault.Is(err, fault.Gone) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", key, err)
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, "", fault.Wrap(fault.Permanent, fmt.Errorf("read %s: it is %w: %w", store.URL(s, key), ErrDamaged, err), "correct or remove the object")
	}
	return out, version, nil
}

// readSound is like read, but treats a damaged object as missing, because it must not keep a
// manager from its work.
func readSound[T any](ctx context.Context, s store.Store, key string) (*T, error) {
	out, _, err := read[T](ctx, s, key)
	if errors.Is(err, ErrDamaged) {
		return nil, nil
	}
	return out, err
}

// write stores a value as JSON.
func write(ctx context.Context, s store.Store, key string, value any, o store.PutOptions) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, key, text, o)
	return err
}

// stamp is a number of seconds or nanoseconds that JSON may represent as a string.
type stamp int64

// MarshalJSON writes a string, as the JSON format of protocol buffers does.
func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(strconv.Quote(strconv.FormatInt(int64(s), 10))), nil
}

// UnmarshalJSON reads a string or a number.
func (s *stamp) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(data), `"`), 10, 64)
	if err != nil {
		return errors.New("a timestamp must be a whole number, not " + string(data))
	}
	*s = stamp(n)
	return nil
}
