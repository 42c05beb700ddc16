package awstest

import (
	"os"
	"os/exec"
	"testing"

	"kops.local/kops/internal/test/servers"
)

// Versity starts a Versity S3 gateway on a new folder, for the test and its subtests.
func Versity(t testing.TB) *Server {
	t.Helper()
	program := servers.Tool(t, "versitygw", "github.com/versity/versitygw/cmd/versitygw")
	s := &Server{Region: "us-east-1", AccessKey: "testing", SecretKey: "testingtesting"}
	s.URL = servers.RunAt(t, func(address string) *exec.Cmd {
		cmd := exec.Command(program, "--port", address, "--region", s.Region, "--quiet", "--keep-alive", "posix", t.TempDir())
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
		return cmd
	}, "")
	return s
}
