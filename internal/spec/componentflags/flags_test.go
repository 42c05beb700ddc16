package componentflags_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/spec/componentflags"
)

type election struct {
	LeaderElect *bool `flag:"leader-elect"`
}

type config struct {
	Image    string
	Level    int32              `flag:"v (empty=0)"`
	Port     int32              `flag:"secure-port"`
	Format   string             `flag:"logging-format (empty=text)"`
	On       *bool              `flag:"on"`
	Always   bool               `flag:"always"`
	Plugins  []string           `flag:"plugins"`
	Keys     []string           `flag:"key-file,repeat"`
	Gates    map[string]string  `flag:"feature-gates"`
	Period   *metav1.Duration   `flag:"period (empty=0s)"`
	QPS      *resource.Quantity `flag:"qps"`
	File     string             `flag:"-"`
	Election *election
	CPU      *resource.Quantity
}

func TestFlags(t *testing.T) {
	yes, no := true, false
	qps, period, none := resource.MustParse("3140m"), metav1.Duration{Duration: 90 * time.Second}, metav1.Duration{}
	for _, c := range []struct {
		name string
		in   any
		want []string
	}{
		{"numbers and truth values without an empty value are always there", &config{}, []string{"--always=false", "--secure-port=0"}},
		{"the empty value gives no flag", &config{Format: "text", Level: 0, Period: &none}, []string{"--always=false", "--secure-port=0"}},
		{"a nil struct has none", (*config)(nil), nil},
		{"everything, sorted", config{
			Image: "i", Level: 2, Port: 443, Format: "json", On: &no, Always: true,
			Plugins: []string{"b", "a"}, Keys: []string{"x", "y"}, Gates: map[string]string{"B": "false", "A": "true"},
			Period: &period, QPS: &qps, File: "f", Election: &election{LeaderElect: &yes}, CPU: &qps,
		}, []string{
			"--always=true", "--feature-gates=A=true,B=false", "--key-file=x", "--key-file=y", "--leader-elect=true", "--logging-format=json",
			"--on=false", "--period=1m30s", "--plugins=b,a", "--qps=3.14", "--secure-port=443", "--v=2",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := componentflags.Flags(c.in); !slices.Equal(got, c.want) {
				t.Errorf("flags\n got %q\nwant %q", got, c.want)
			}
		})
	}
}
