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

// CompareUserData compares the user data with which a machine was started with the current user data of its
// group.
func CompareUserData(have, want string) Drift {
	h, w := parseUserData(have), parseUserData(want)
	out := Drift{Config: h.boot.NodeupConfigHash, Wanted: w.boot.NodeupConfigHash}
	out.Add("spec.configStore.base", h.boot.ConfigBase, w.boot.ConfigBase)
	out.Add("addresses of the API", strings.Join(h.servers(), ","), strings.Join(w.servers(), ","))
	out.Add("addresses of etcd", strings.Join(h.boot.EtcdIPs, ","), strings.Join(w.boot.EtcdIPs, ","))
	out.Add("keypair kubernetes-ca", digest(h.caCertificates()), digest(w.caCertificates()))
	for _, d := range h.script.diff(w.script) {
		out.Add(d.Field, d.Have, d.Want)
	}
	out.Add("spec.additionalUserData", digest(h.rest), digest(w.rest))
	return out
}

// ConfigHash returns the hash of the node configuration in user data; "" if it has none.
func ConfigHash(text string) string { return parseUserData(text).boot.NodeupConfigHash }

// Add records a change if the two values differ as users see them: pointers are dereferenced, and
// a zero or empty value is "".
func (m *Drift) Add(field string, have, want any) {
	if h, w := formatValue(have), formatValue(want); h != w {
		m.Changes = append(m.Changes, Change{field, h, w})
	}
}

func formatValue(v any) string {
	value := reflect.Indirect(reflect.ValueOf(v))
	if !value.IsValid() || value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
		return ""
	}
	return fmt.Sprint(value.Interface())
}

// userData is parsed user data.
type userData struct {
	boot   nodeconfig.Boot
	script script // without the boot configuration
	rest   string // what the user added
}

// bootConfig finds the boot configuration in a boot script, which hands it to nodeup.
var bootConfig = regexp.MustCompile(`(?ms)^[^\n]*<< *'?__EOF_KUBE_ENV'?([^\n]*)\n(.*?)^__EOF_KUBE_ENV$`)

// parseUserData parses user data. Unreadable parts count as the user's.
func parseUserData(text string) userData {
	text, rest := splitUserData(text)
	at := bootConfig.FindStringSubmatchIndex(text)
	if at == nil {
		return userData{rest: rest + text}
	}
	config := text[at[4]:at[5]]
	if strings.Contains(text[at[2]:at[3]], "gzip") {
		config = unpack(config)
	}
	out := userData{script: script(text[:at[0]] + text[at[1]:]), rest: rest}
	if err := yaml.Unmarshal([]byte(config), &out.boot); err != nil { // written by an unknown tool
		return userData{rest: rest + text}
	}
	return out
}

// splitUserData returns the boot script of user data, and what the user added to it.
func splitUserData(text string) (script, added string) {
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil { // the text is the script itself
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

// unpack decodes base64 and decompresses gzip; it returns "" if either fails.
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

// servers returns the addresses at which the machine reaches the API and kops-controller.
func (u userData) servers() []string {
	out := slices.Clone(u.boot.APIServerIPs)
	if s := u.boot.ConfigServer; s != nil {
		out = append(out, s.Servers...)
	}
	return out
}

func (u userData) caCertificates() string {
	if s := u.boot.ConfigServer; s != nil {
		return s.CACertificates
	}
	return ""
}

// script is a boot script.
type script string

// diff returns the first difference of each kind between two boot scripts: one in nodeup's
// URL and hash, and one in everything else.
func (s script) diff(want script) []Change {
	var out []Change
	for _, d := range []struct {
		field string
		of    bool // whether to compare the lines about nodeup
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
		isNodeup := strings.HasPrefix(l, "NODEUP_URL_") || strings.HasPrefix(l, "NODEUP_HASH_")
		if l != "" && isNodeup == nodeup {
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

// digest is a short hash that represents a long text.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
