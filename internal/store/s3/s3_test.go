package s3_test

import (
	"fmt"
	"testing"

	"kops.local/kops/internal/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/store/storetest"
)

// Moto looks at a condition and writes in two steps.
func TestMoto(t *testing.T) {
	conformance(t, awstest.Moto(t), storetest.Traits{Nested: true, Digests: true})
}

// The gateway keeps objects as files, and replaces one by way of another name in the same folder.
func TestVersity(t *testing.T) {
	conformance(t, awstest.Versity(t), storetest.Traits{Atomic: true, Digests: true, Strangers: true})
}

func conformance(t *testing.T, server *awstest.Server, traits storetest.Traits) {
	const name = "state-of-tests"
	server.Bucket(t, name)
	n := 0
	storetest.Run(t, traits, func(t *testing.T) storetest.Clients {
		n++
		url := fmt.Sprintf("s3://%s/part %d", name, n)
		return func() store.Store { return open(t, server.S3(), url) }
	})
}

func open(t *testing.T, cfg s3.Config, url string) store.Store {
	t.Helper()
	s, err := store.Backends{s3.Backend(cfg)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
