package metrics

import (
	"net/http/httptest"
	"testing"
	"time"
)

func TestTheTextFormat(t *testing.T) {
	of := func() []Metric {
		return []Metric{
			One("a_total", Counter, "A\nline.", 3),
			{"b", Gauge, `B\C.`, []Sample{{[][2]string{{"x", "one \"two\"\n"}, {"y", `\`}}, 0.25}, {[][2]string{{"x", ""}}, 1e15}}},
			{"none", Gauge, "Nothing.", nil},
			One("yes", Gauge, "Yes.", Bool(true)), One("no", Gauge, "No.", Bool(false)),
			One("at", Gauge, "At.", Time(time.Unix(1790000000, 5))), One("never", Gauge, "Never.", Time(time.Time{})),
		}
	}
	got := httptest.NewRecorder()
	Handler(of).ServeHTTP(got, httptest.NewRequest("GET", "/metrics", nil))
	want := "# HELP a_total A\\nline.\n# TYPE a_total counter\na_total 3\n" +
		"# HELP b B\\\\C.\n# TYPE b gauge\nb{x=\"one \\\"two\\\"\\n\",y=\"\\\\\"} 0.25\nb{x=\"\"} 1000000000000000\n" +
		"# HELP yes Yes.\n# TYPE yes gauge\nyes 1\n# HELP no No.\n# TYPE no gauge\nno 0\n" +
		"# HELP at At.\n# TYPE at gauge\nat 1790000000\n# HELP never Never.\n# TYPE never gauge\nnever 0\n"
	if got.Body.String() != want || got.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%s:\n%s\nand not\n%s", got.Header(), got.Body, want)
	}
}
