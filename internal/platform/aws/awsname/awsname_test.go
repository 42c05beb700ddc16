package awsname_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform/aws/awsname"
)

func TestNamesOnAWS(t *testing.T) {
	long := strings.Repeat("long.", 18) + "example.com"
	for _, c := range []struct{ got, want string }{
		{awsname.MachineRole("masters", "minimal.example.com"), "masters.minimal.example.com"},
		{awsname.MachineRole("nodes", long), names.Hashed("nodes."+long, 64)},
		{awsname.AccountRole("myotherserviceaccount", "myapp", "minimal.example.com"), "myotherserviceaccount.myapp.sa.minimal.example.com"},
		{awsname.AccountRole("myserviceaccount", "test-*", "minimal.example.com"), "myserviceaccount.test-wildcard.sa.minimal.example.com"},
		{awsname.AccountRole("dns-controller", "kube-system", long), names.Hashed("dns-controller.kube-system.sa."+long, 64)},
		{awsname.TerminationQueue("minimal.example.com"), "minimal-example-com-nth"},
		{awsname.EventRulePrefix("k.example.com"), "k.example.com-"},
		{awsname.EventRulePrefix(strings.Repeat("a", 40)), strings.Repeat("a", 40) + "-"},
		{awsname.EventRulePrefix(strings.Repeat("a", 41)), strings.Repeat("a", 33) + "-thgjih-"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if got := awsname.TerminationQueue(long); len(got) != 79 {
		t.Errorf("the queue's name %s has %d characters; SQS takes 80", got, len(got))
	}
}
