package etcdtest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/crypto/nacl/secretbox"
	"google.golang.org/protobuf/encoding/protowire"
)

// Snapshot returns a snapshot in etcd's format, with its digest at the end: a database
// in which each key was written once, from revision 2 on.
func Snapshot(t testing.TB, keys ...string) []byte {
	t.Helper()
	var all []KeyValue
	for _, k := range keys {
		all = append(all, KeyValue{Key: k})
	}
	return SnapshotOf(t, all...)
}

// KeyValue is a key and its value.
type KeyValue struct {
	Key   string
	Value []byte
}

// SnapshotOf is Snapshot with values. A key may be written several times.
func SnapshotOf(t testing.TB, all ...KeyValue) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(file, 0o600, &bolt.Options{NoSync: true, PageSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucket([]byte("key"))
		for i, kv := range all {
			name := append(binary.BigEndian.AppendUint64(nil, uint64(i+2)), "_\x00\x00\x00\x00\x00\x00\x00\x00"...)
			value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), kv.Key)
			if kv.Value != nil {
				value = protowire.AppendBytes(protowire.AppendTag(value, 5, protowire.BytesType), kv.Value)
			}
			if err == nil {
				err = bucket.Put(name, value)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// Packed compresses a snapshot as stores keep it.
func Packed(t testing.TB, snapshot []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(snapshot); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Namespace returns the namespace kube-system with a UID, as API servers store it.
func Namespace(uid string) KeyValue {
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	object := field(1, append(field(1, []byte("kube-system")), field(5, []byte(uid))...))
	unknown := append(field(1, field(1, []byte("v1"))), field(2, object)...)
	return KeyValue{"/registry/namespaces/kube-system", append([]byte("k8s\x00"), unknown...)}
}

// Secretbox returns an object that an API server has encrypted with a key of the provider secretbox.
func Secretbox(t testing.TB, key, name, secret string) KeyValue {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	var nonce [24]byte
	copy(nonce[:], key)
	value := append([]byte("k8s:enc:secretbox:v1:"+name+":"), nonce[:]...)
	return KeyValue{key, secretbox.Seal(value, []byte("k8s\x00"+key), &nonce, (*[32]byte)(raw))}
}
