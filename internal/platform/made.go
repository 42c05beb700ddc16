package platform

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/nodeconfig"
)

// Started is what the user data with which a machine was started tells, in
// comparison with the user data that its group has now.
func Started(have, want string) Made {
	h, w := takeApart(have), takeApart(want)
	out := Made{Config: h.boot.NodeupConfigHash, Wanted: w.boot.NodeupConfigHash}
	out.Note("spec.configStore.base", h.boot.ConfigBase, w.boot.ConfigBase)
	out.Note("addresses of the API", strings.Join(h.servers(), ","), strings.Join(w.servers(), ","))
	out.Note("addresses of etcd", strings.Join(h.boot.EtcdIPs, ","), strings.Join(w.boot.EtcdIPs, ","))
	out.Note("keypair kubernetes-ca", digest(h.trusts()), digest(w.trusts()))
	for _, d := range h.script.differences(w.script) {
		out.Note(d.Field, d.Have, d.Want)
	}
	out.Note("spec.additionalUserData", digest(h.rest), digest(w.rest))
	return out
}

// Note adds a change, if there is one, as users see the values: what a pointer points to, and
// nothing for what is zero or empty.
func (m *Made) Note(field string, have, want any) {
	if h, w := shown(have), shown(want); h != w {
		m.Changes = append(m.Changes, Change{field, h, w})
	}
}

func shown(v any) string {
	is := reflect.Indirect(reflect.ValueOf(v))
	if !is.IsValid() || is.IsZero() || is.Kind() == reflect.Slice && is.Len() == 0 {
		return ""
	}
	return fmt.Sprint(is.Interface())
}

// userData is a user data, taken apart.
type userData struct {
	boot   nodeconfig.Boot
	script script // without the boot configuration
	rest   string // what the user added
}

// bootConfig finds the boot configuration in a boot script, which hands it to nodeup.
var bootConfig = regexp.MustCompile(`(?ms)^[^\n]*<< *'?__EOF_KUBE_ENV'?([^\n]*)\n(.*?)^__EOF_KUBE_ENV$`)

// takeApart reads user data. Unreadable parts count as the user's.
func takeApart(text string) userData {
	text, rest := parts(text)
	at := bootConfig.FindStringSubmatchIndex(text)
	if at == nil {
		return userData{rest: rest + text}
	}
	config := text[at[4]:at[5]]
	if strings.Contains(text[at[2]:at[3]], "gzip") {
		config = unpack(config)
	}
	out := userData{script: script(text[:at[0]] + text[at[1]:]), rest: rest}
	if err := yaml.Unmarshal([]byte(config), &out.boot); err != nil { // of a tool that we do not know
		return userData{rest: rest + text}
	}
	return out
}

// parts returns the boot script of user data, and what the user added to it.
func parts(text string) (script, added string) {
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil { // it is the script itself
		return text, ""
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return text, ""
	}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if err != nil {
			return script, added
		}
		body, err := io.ReadAll(p)
		switch {
		case err != nil:
			return text, ""
		case p.FileName() == "nodeup.sh":
			script = string(body)
		default:
			added += p.FileName() + " " + p.Header.Get("Content-Type") + "\n" + string(body)
		}
	}
}

// unpack reverses gzip and base64; it is empty if that cannot be done.
func unpack(text string) string {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(z, 1<<20))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(data))
}

// servers are where the machine finds the API and kops-controller.
func (u userData) servers() []string {
	out := slices.Clone(u.boot.APIServerIPs)
	if s := u.boot.ConfigServer; s != nil {
		out = append(out, s.Servers...)
	}
	return out
}

func (u userData) trusts() string {
	if s := u.boot.ConfigServer; s != nil {
		return s.CACertificates
	}
	return ""
}

// script is a boot script.
type script string

// differences are the first differences of two boot scripts: one in where nodeup comes
// from and what it is, and one in all else.
func (s script) differences(want script) []Change {
	var out []Change
	for _, d := range []struct {
		field string
		of    bool // the lines about nodeup
	}{{"nodeup", true}, {"boot script", false}} {
		have, want := s.lines(d.of), want.lines(d.of)
		for i := range max(len(have), len(want)) {
			if h, w := line(have, i), line(want, i); h != w {
				out = append(out, Change{d.field, h, w})
				break
			}
		}
	}
	return out
}

func (s script) lines(nodeup bool) []string {
	var out []string
	for l := range strings.Lines(string(s)) {
		l = strings.TrimSpace(l)
		is := strings.HasPrefix(l, "NODEUP_URL_") || strings.HasPrefix(l, "NODEUP_HASH_")
		if l != "" && is == nodeup {
			out = append(out, l)
		}
	}
	return out
}

func line(list []string, i int) string {
	if i >= len(list) {
		return ""
	}
	return list[i]
}

// digest stands for a long text.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
