package member

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"kops.local/kops/internal/node/etcd"
)

// The file state has kOps' format: a protocol buffers message EtcdState, so that either manager
// can continue with the other's disks. Information for which kOps' manager has no field is in an
// extra field, which it ignores. The numbers are from the messages EtcdState, EtcdCluster and
// EtcdNode in etcdapi.proto of etcd-manager.
const (
	stateNew, stateCluster, stateVersion, stateQuarantined protowire.Number = 1, 2, 3, 4
	// stateOurs holds our own account, as JSON (see account).
	stateOurs protowire.Number = 1000

	clusterSize, clusterToken, clusterNodes protowire.Number = 1, 5, 7

	nodeName, nodePeerURLs, nodeClientURLs, nodeQuarantineURLs, nodeTLS protowire.Number = 1, 2, 3, 4, 5
)

// storedState is the state stored on the disk.
type storedState struct {
	etcd.State
	// Initial are the members passed to etcd until it has begun its data.
	Initial []etcd.Node `json:"initial,omitempty"`

	// cluster is the rest of the message, without the version and the quarantine, encoded: how the
	// cluster began. It does not change during the life of the seat.
	cluster []byte
}

func (k storedState) sameAs(o storedState) bool { return reflect.DeepEqual(k, o) }

// account is the state beyond kOps' message. It is valid only while the rest of the message is
// the same as when the account was written: otherwise kOps' manager has used the disk since.
type account struct {
	storedState
	Digest string `json:"digest"`
}

// node is a member as kOps' manager describes it.
type node struct {
	name     string
	peerURLs []string
	tls      bool
}

// describe returns the description of a cluster that kOps' manager expects, for
// kept.cluster: the members that etcd begins with, the one of this peer with all
// of its URLs.
func (c Config) describe(k storedState) []byte {
	cluster := appendNumber(nil, clusterSize, uint64(len(k.Initial)))
	cluster = appendText(cluster, clusterToken, k.Token)
	for _, n := range k.Initial {
		b := appendText(nil, nodeName, n.Name)
		b = appendText(b, nodePeerURLs, n.URLs...)
		if n.Name == c.ID {
			b = appendText(b, nodeClientURLs, c.ClientURLs...)
			b = appendText(b, nodeQuarantineURLs, c.QuarantineURLs...)
		}
		b = appendFlag(b, nodeTLS, secure(c.PeerURLs))
		cluster = appendText(cluster, clusterNodes, string(b))
	}
	return appendText(appendFlag(nil, stateNew, k.Seat == etcd.FounderSeat), stateCluster, string(cluster))
}

// encode returns the content of the file.
func (k storedState) encode() ([]byte, error) {
	out := slices.Clone(k.cluster)
	if k.Version != "" {
		out = appendText(out, stateVersion, k.Version)
	}
	out = appendFlag(out, stateQuarantined, k.Quarantined)
	text, err := json.Marshal(account{k, digest(out)})
	if err != nil {
		return nil, err
	}
	return appendText(out, stateOurs, string(text)), nil
}

// digest returns the digest of a message without our own account.
func digest(message []byte) string {
	sum := sha256.Sum256(message)
	return hex.EncodeToString(sum[:])
}

// decode reads the content of the file. theirs is nil if this program wrote it;
// otherwise kept has no seat, and theirs are the members that kOps' manager knew.
func decode(text []byte) (k storedState, theirs []node, err error) {
	if len(text) > 0 && text[0] == '{' { // the account alone, the format of the first versions of this program
		err := json.Unmarshal(text, &k)
		return k, nil, err
	}
	var a account
	var rest []byte
	theirs = []node{}
	unknown := false
	err = eachField(text, func(f field) (err error) {
		if f.number == stateOurs {
			return errors.Join(f.check(protowire.BytesType), json.Unmarshal(f.text, &a))
		}
		rest = append(rest, f.raw...)
		switch f.number {
		case stateVersion:
			k.Version = string(f.text)
			return f.check(protowire.BytesType)
		case stateQuarantined:
			k.Quarantined = f.value != 0
			return f.check(protowire.VarintType)
		case stateCluster:
			if err = f.check(protowire.BytesType); err == nil {
				k.Token, theirs, err = decodeCluster(f.text)
			}
		case stateNew:
			err = f.check(protowire.VarintType)
		default:
			unknown = true
		}
		k.cluster = append(k.cluster, f.raw...)
		return err
	})
	switch {
	case err != nil:
		return storedState{}, nil, err
	case a.Digest == digest(rest):
		a.cluster = k.cluster
		return a.storedState, nil, nil
	case k.Token == "" && unknown:
		return storedState{}, nil, errors.New("it names no cluster")
	case k.Token == "":
		return storedState{}, theirs, nil
	case k.Version == "":
		return storedState{}, nil, errors.New("it names no version of etcd")
	}
	for _, n := range theirs {
		k.Initial = append(k.Initial, etcd.Node{Name: n.name, URLs: n.peerURLs})
	}
	return k, theirs, nil
}

func decodeCluster(message []byte) (token string, nodes []node, err error) {
	nodes = []node{}
	err = eachField(message, func(f field) error {
		switch f.number {
		case clusterToken:
			token = string(f.text)
			return f.check(protowire.BytesType)
		case clusterNodes:
			n, err := decodeNode(f.text)
			nodes = append(nodes, n)
			return errors.Join(f.check(protowire.BytesType), err)
		}
		return nil
	})
	if err == nil && token != "" && !isName(token) {
		err = fmt.Errorf("its cluster has the token %q", token)
	}
	return token, nodes, err
}

// isName reports whether a token can be the name of a folder.
func isName(token string) bool {
	return utf8.ValidString(token) && !strings.ContainsAny(token, "/\x00") && token != "." && token != ".."
}

func decodeNode(message []byte) (node, error) {
	var n node
	err := eachField(message, func(f field) error {
		switch f.number {
		case nodeName:
			n.name = string(f.text)
		case nodePeerURLs:
			n.peerURLs = append(n.peerURLs, string(f.text))
		case nodeTLS:
			n.tls = f.value != 0
			return f.check(protowire.VarintType)
		default:
			return nil
		}
		return f.check(protowire.BytesType)
	})
	return n, err
}

// field is one field of a message: its bytes, and its value.
type field struct {
	number protowire.Number
	kind   protowire.Type
	raw    []byte
	value  uint64 // of a number or a flag
	text   []byte // of a string or a message
}

func (f field) check(kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("its field %d has an unexpected type", f.number)
	}
	return nil
}

// eachField calls do for the fields of a message, in order, up to the first error.
func eachField(message []byte, do func(field) error) error {
	for len(message) > 0 {
		number, kind, head := protowire.ConsumeTag(message)
		if head < 0 {
			return protowire.ParseError(head)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[head:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		f := field{number: number, kind: kind, raw: message[:head+size]}
		switch kind {
		case protowire.VarintType:
			f.value, _ = protowire.ConsumeVarint(message[head:])
		case protowire.BytesType:
			f.text, _ = protowire.ConsumeBytes(message[head:])
		}
		if err := do(f); err != nil {
			return err
		}
		message = message[head+size:]
	}
	return nil
}

func appendText(to []byte, number protowire.Number, values ...string) []byte {
	for _, v := range values {
		to = protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), v)
	}
	return to
}

func appendNumber(to []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), value)
}

// appendFlag leaves out a flag that is not set, as protocol buffers do.
func appendFlag(to []byte, number protowire.Number, set bool) []byte {
	if !set {
		return to
	}
	return appendNumber(to, number, 1)
}
