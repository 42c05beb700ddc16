package redact

import "testing"

func TestPasswordsOfURLs(t *testing.T) {
	for text, want := range map[string]string{
		"https://bob:hunter2@m.example.com/x":                "https://xxxxx@m.example.com/x",
		"https://token@m.example.com":                        "https://xxxxx@m.example.com",
		"http://u:p@ss,w'd@proxy:3128":                       "http://xxxxx@proxy:3128",
		"+export http_proxy='http://u:s3%40t@proxy:3128'":    "+export http_proxy='http://xxxxx@proxy:3128'",
		`["http://a.b","http://u:p@c"] postgres://u:p@db/x`:  `["http://a.b","http://xxxxx@c"] postgres://xxxxx@db/x`,
		"https://a.b/x?sig=abc&se=1#top and s3://c?x=y":      "https://a.b/x?xxxxx#top and s3://c?xxxxx",
		"  host: u2:s3cretpw@proxy\n  port: 1":               "  host: xxxxx@proxy\n  port: 1",
		`{"host":"u:p@w'd@proxy","excludes":"a@b"}`:          `{"host":"xxxxx@proxy","excludes":"a@b"}`,
		`"spec": "{\"host\": \"u:p@proxy\"}\nhost: u:p@h\n"`: `"spec": "{\"host\": \"xxxxx@proxy\"}\nhost: xxxxx@h\n"`,
		"--set spec.egressProxy.httpProxy.host=u:p@proxy":    "--set spec.egressProxy.httpProxy.host=xxxxx@proxy",
		"host: http://u:p@proxy and user: sa:x@y.iam":        "host: http://xxxxx@proxy and user: sa:x@y.iam",
		"host: proxy\nmail: a@b ghost: a@b hostname: a@b":    "host: proxy\nmail: a@b ghost: a@b hostname: a@b",
		"https://a.b/x@y mail@example.com 10.0.0.1:80/x@z":   "https://a.b/x@y mail@example.com 10.0.0.1:80/x@z",
		"image@sha256:abc a?b docker://x/y:z@sha256:abc":     "image@sha256:abc a?b docker://x/y:z@sha256:abc",
	} {
		if got := URLs(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if text := "https://a.b/x?version=1"; Userinfo(text) != text {
		t.Error("a query is taken for a user")
	}
	for path, want := range map[string]string{"spec.networking.egressProxy.httpProxy.host": "xxxxx@proxy", "host": "xxxxx@proxy", "spec.a.hosts": "u:p@proxy"} {
		if got := Field(path, "u:p@proxy"); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
