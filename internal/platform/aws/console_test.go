package aws_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/api"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
)

// console answers GetConsoleOutput as EC2 does: EC2 keeps the end of a console's output, and
// returns the latest output only for instances on the Nitro system.
type console struct {
	text, old string
	nitro     bool
	asked     []string
}

func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	latest := r.FormValue("Latest")
	c.asked = append(c.asked, r.FormValue("Action")+" "+r.FormValue("InstanceId")+" "+latest)
	text := c.old
	if latest == "true" {
		if !c.nitro {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `<Response><Errors><Error><Code>UnsupportedOperation</Code><Message>This instance type does not support retrieving the latest console logs.</Message></Error></Errors><RequestID>r</RequestID></Response>`)
			return
		}
		text = c.text
	}
	text = text[max(0, len(text)-64<<10):]
	_, _ = fmt.Fprintf(w, `<GetConsoleOutputResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><instanceId>%s</instanceId><output>%s</output></GetConsoleOutputResponse>`,
		r.FormValue("InstanceId"), base64.StdEncoding.EncodeToString([]byte(text)))
}

func TestTheReportComesByTheConsole(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	broken := report.Line(&report.Report{Cluster: cluster, Started: at, Phases: []report.Phase{{Name: "configure", State: report.Failed, Started: at, Error: "403", Remedy: "do this"}}})
	old := "[    0.000000] Linux version 6.1\r\nubuntu login: \r\n"
	full := old + strings.Repeat("[   10.1] eth0: nothing new\r\n", 4000) + "[   20.1] nodeup[80]: nodeup: configure: failed after 0.1 s: 403; do this\r\n[   20.1] nodeup[80]: nodeup: " + broken + "\r\n"
	for _, c := range []struct {
		name    string
		server  *console
		message string
		asked   []string
	}{
		{"as it is now", &console{text: full, old: old, nitro: true}, "its boot failed in the phase configure: 403", []string{"true"}},
		{"as it was", &console{text: full, old: full}, "its boot failed in the phase configure: 403", []string{"true", "false"}},
		{"nothing now", &console{old: old, nitro: true}, "booting: the kernel has started, and the console shows nothing else yet", []string{"true", "false"}},
	} {
		s := httptest.NewServer(c.server)
		t.Cleanup(s.Close)
		p := aws.Provider(aws.Options{Endpoint: s.URL, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
		session, err := p.Connect(t.Context(), platform.Config{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Fleet.BootRecord(t.Context(), session, &api.Cluster{}, platform.Machine{Name: "i-1"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.asked {
			c.asked[i] = "GetConsoleOutput i-1 " + c.asked[i]
		}
		if got := health.ReadStart(r); got.Message != c.message || !slices.Equal(c.server.asked, c.asked) || strings.Contains(strings.Join(got.Console, "\n"), broken) {
			t.Errorf("%s: asked %q, %+v", c.name, c.server.asked, got)
		}
	}
}
