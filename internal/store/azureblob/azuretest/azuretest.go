// Package azuretest starts Azurite, Microsoft's own emulator of Azure Storage, in tests.
//
// It is for tests only, and must not know what the blobs mean.
package azuretest

import (
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"kops.local/kops/internal/store/azureblob"
	"kops.local/kops/internal/test/servers"
)

// Account is the name of the server's account.
const Account = "kopstests"

// Server is a running server that belongs to one test.
type Server struct {
	// URL is the endpoint of the account's blobs, and Key the account's shared key.
	URL, Key string
}

// Config returns the configuration for stores in the server's containers.
func (s *Server) Config() azureblob.Config { return azureblob.Config{Endpoint: s.URL, Key: s.Key} }

// Start starts a server for the test and its subtests.
func Start(t testing.TB) *Server {
	t.Helper()
	program, err := exec.LookPath("azurite-blob")
	if err != nil {
		servers.SkipMissing(t, "azurite-blob is not installed (npm install -g azurite)")
	}
	s := &Server{Key: base64.StdEncoding.EncodeToString([]byte("the key of an account for tests"))}
	s.URL = servers.RunAt(t, func(address string) *exec.Cmd {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "--blobHost", host, "--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry")
		cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+Account+":"+s.Key)
		return cmd
	}, "/"+Account) + "/" + Account
	return s
}

// Container creates a container; access is its public access level: "", blob or container.
func (s *Server) Container(t testing.TB, name, access string) {
	t.Helper()
	header := http.Header{}
	if access != "" {
		header.Set("X-Ms-Blob-Public-Access", access)
	}
	if err := azureblob.Create(t.Context(), s.Config(), Account, name, header); err != nil {
		t.Fatal(err)
	}
}
