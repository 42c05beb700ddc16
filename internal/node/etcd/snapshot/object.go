package snapshot

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// ClusterKey is the key of the namespace kube-system, whose UID identifies a Kubernetes cluster.
const ClusterKey = "/registry/namespaces/kube-system"

// sealedPrefix is the prefix of every value that an API server has encrypted, and
// protobufPrefix of those in the form of protocol buffers (k8s.io/apiserver, storage/value;
// k8s.io/apimachinery, runtime/serializer/protobuf).
const sealedPrefix, protobufPrefix = "k8s:enc:", "k8s\x00"

// Sealed describes the objects that API servers have encrypted in one way.
type Sealed struct {
	// Provider is aesgcm, aescbc, secretbox or kms, Version its format's version, and Name the
	// name of the key or of the plugin.
	Provider, Version, Name string
	// Objects is their number.
	Objects int64
	// Samples are the one that was written first, and the one that was written last.
	Samples []Object
}

// Object is an encrypted object: its key in etcd, and its value without the prefix that
// describes the encryption.
type Object struct {
	Key   string
	Value []byte
}

// way is how an object is encrypted.
type way struct{ provider, version, name string }

// sealedObject is the location of an encrypted object's value.
type sealedObject struct {
	way      way
	revision string
}

// sealedObjects are the encrypted objects, by their keys.
type sealedObjects map[string]sealedObject

// add records a value if it is encrypted.
func (s sealedObjects) add(key string, revision, value []byte) {
	if w, _, ok := sealedBy(value); ok {
		s[key] = sealedObject{w, string(revision)}
	}
}

// sealedBy splits an encrypted value of the form k8s:enc:PROVIDER:VERSION:NAME:CONTENT.
func sealedBy(value []byte) (way, []byte, bool) {
	rest, ok := bytes.CutPrefix(value, []byte(sealedPrefix))
	parts := bytes.SplitN(rest, []byte{':'}, 4)
	if !ok || len(parts) < 4 {
		return way{}, nil, false
	}
	return way{string(parts[0]), string(parts[1]), string(parts[2])}, parts[3], true
}

// sample describes the ways in which objects are encrypted.
func (s sealedObjects) sample(revisions *bolt.Bucket) []Sealed {
	type span struct {
		count       int64
		first, last string // keys
	}
	found := map[way]span{}
	for key, o := range s {
		of, seen := found[o.way]
		if !seen || o.revision < s[of.first].revision {
			of.first = key
		}
		if !seen || o.revision > s[of.last].revision {
			of.last = key
		}
		of.count++
		found[o.way] = of
	}
	var out []Sealed
	for w, of := range found {
		x := Sealed{Provider: w.provider, Version: w.version, Name: w.name, Objects: of.count}
		for _, key := range slices.Compact([]string{of.first, of.last}) {
			value, _ := field(revisions.Get([]byte(s[key].revision)), valueField)
			_, content, _ := sealedBy(value)
			x.Samples = append(x.Samples, Object{key, bytes.Clone(content)}) // the database will be closed
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Sealed) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Version, b.Version), strings.Compare(a.Name, b.Name))
	})
	return out
}

// UID returns the UID of an object as an API server stores it in the form of protocol
// buffers; empty if it has another form.
func UID(value []byte) string {
	envelope, ok := bytes.CutPrefix(value, []byte(protobufPrefix))
	for _, number := range []protowire.Number{2, 1, 5} { // runtime.Unknown.raw, metadata, uid
		if !ok {
			return ""
		}
		envelope, ok = field(envelope, number)
	}
	return string(envelope)
}

// field returns a bytes field of a protocol buffers message.
func field(message []byte, number protowire.Number) ([]byte, bool) {
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		if num == number && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			return value, n >= 0
		}
		if n = protowire.ConsumeFieldValue(num, kind, message); n < 0 {
			return nil, false
		}
		message = message[n:]
	}
	return nil, false
}
