package names_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/model/names"
)

func TestNamesOnAWS(t *testing.T) {
	long := strings.Repeat("long.", 18) + "example.com"
	for _, c := range []struct{ got, want string }{
		{names.AWSMachineRole("masters", "minimal.example.com"), "masters.minimal.example.com"},
		{names.AWSMachineRole("nodes", long), names.Hashed("nodes."+long, 64)},
		{names.AWSAccountRole("myotherserviceaccount", "myapp", "minimal.example.com"), "myotherserviceaccount.myapp.sa.minimal.example.com"},
		{names.AWSAccountRole("myserviceaccount", "test-*", "minimal.example.com"), "myserviceaccount.test-wildcard.sa.minimal.example.com"},
		{names.AWSAccountRole("dns-controller", "kube-system", long), names.Hashed("dns-controller.kube-system.sa."+long, 64)},
		{names.AWSTerminationQueue("minimal.example.com"), "minimal-example-com-nth"},
		{names.AWSEventRulePrefix("k.example.com"), "k.example.com-"},
		{names.AWSEventRulePrefix(strings.Repeat("a", 40)), strings.Repeat("a", 40) + "-"},
		{names.AWSEventRulePrefix(strings.Repeat("a", 41)), strings.Repeat("a", 33) + "-thgjih-"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if got := names.AWSTerminationQueue(long); len(got) != 79 {
		t.Errorf("the queue's name %s has %d characters; SQS takes 80", got, len(got))
	}
}
