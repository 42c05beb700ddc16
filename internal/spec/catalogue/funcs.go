package catalogue

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/staticpod"
	"kops.local/kops/internal/spec/componentflags"
	"kops.local/kops/internal/template"
)

// functions returns the functions for templates. The code that fills in a manifest adds image, own
// and include.
func functions() template.Funcs {
	return template.Funcs{
		// image returns an image's name as the cluster pulls it, and records its use; own does so
		// for the image of one of kops' own programs.
		"image": noImageName,
		"own":   noImageName,
		// secret returns the text of a secret of the cluster that manifests may have; "" if there is none.
		"secret": func(string) (string, error) { return "", errors.New("secrets are in manifests only") },
		// userData returns what the machines of a group run at their first boot.
		"userData": func(*api.InstanceGroup) (string, error) { return "", errors.New("only manifests have user data") },
		// flags returns the flags of a component's configuration.
		"flags": componentflags.Flags,
		// include returns the text of a defined template.
		"include": func(string, any) (string, error) {
			return "", errors.New("a template is included only while another is filled in")
		},
		// override sets keys of a map in YAML to those of others, in YAML or not, and returns it as YAML.
		"override": override,
		// variables converts a map in YAML to the environment of a container.
		"variables": variables,
		// environment returns the environment of a container as a map.
		"environment": func(list []api.EnvVar) map[string]string {
			out := map[string]string{}
			for _, e := range list {
				out[e.Name] = e.Value
			}
			return out
		},
		// collect reads lines of two words, and groups the second words by the first.
		"collect": func(lines string) map[string][]string {
			out := map[string][]string{}
			for line := range strings.Lines(lines) {
				if words := strings.Fields(line); len(words) == 2 {
					out[words[0]] = append(out[words[0]], words[1])
				}
			}
			return out
		},
		// proxy returns the environment variables for an egress proxy.
		"proxy":  staticpod.ProxyEnvironment,
		"isTrue": func(b *bool) bool { return b != nil && *b },
		// orTrue returns true unless a user set false.
		"orTrue": func(b *bool) bool { return b == nil || *b },
		// first returns the first value that is neither absent nor empty.
		"first": func(values ...any) string {
			for _, t := range values {
				if s := plain(t); s != "" {
					return s
				}
			}
			return ""
		},
		// smaller and larger return a usual quantity or another one, if that is smaller or larger: what
		// a request is below a user's limit, and a limit above a user's request.
		"smaller": func(usual string, than *resource.Quantity) (string, error) { return nearer(usual, than, -1) },
		"larger":  func(usual string, than *resource.Quantity) (string, error) { return nearer(usual, than, 1) },
		// print joins texts; pointers are dereferenced.
		"print": func(values ...any) string {
			var b strings.Builder
			for _, v := range values {
				b.WriteString(plain(v))
			}
			return b.String()
		},
		// plain returns the text of a value, or of what a pointer leads to.
		"plain":  plain,
		"yaml":   toYAML,
		"indent": func(n int, s string) string { return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n)) },
		"quote":  strconv.Quote,
		// list writes texts as a YAML list on one line.
		"list": func(texts []string) (string, error) {
			text, err := json.Marshal(append([]string{}, texts...))
			return string(text), err
		},
		// csv writes texts as one line of comma-separated values, with quotes where they are needed.
		"csv": separated,
		// json converts YAML to JSON on one line.
		"json": func(text string) (string, error) {
			out, err := yaml.YAMLToJSON([]byte(text))
			return string(out), err
		},
		// matches reports whether a text matches a regular expression.
		"matches": regexp.MatchString,
		// has reports whether a text contains another.
		"has":   strings.Contains,
		"join":  strings.Join,
		"words": strings.Fields,
		// tag returns the tag in an image's name, or otherwise if it has none.
		"tag":   tag,
		"split": func(by, s string) []string { return strings.Split(s, by) },
		// sha256 returns the SHA-256 of a text in hexadecimal, sha256url in base64 for URLs, without padding.
		"sha256": func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) },
		"sha256url": func(text string) string {
			sum := sha256.Sum256([]byte(text))
			return base64.RawURLEncoding.EncodeToString(sum[:])
		},
		// items returns the texts of a list with commas, without space around them, nor empty ones.
		"items": items,
	}
}

// separated writes texts as one line of comma-separated values.
func separated(texts []string) (string, error) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := w.Write(texts); err != nil {
		return "", fmt.Errorf("write comma-separated values: %w", err)
	}
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// nearer returns a quantity, or another one if that compares to it in the wanted way.
func nearer(usual string, than *resource.Quantity, order int) (string, error) {
	q, err := resource.ParseQuantity(usual)
	if err != nil {
		return "", fmt.Errorf("read the quantity %s: %w", usual, err)
	}
	if than != nil && than.Cmp(q) == order {
		return than.String(), nil
	}
	return usual, nil
}

func items(list string) []string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// tag returns the tag in the name of an image: not the port of its registry, nor its digest.
func tag(image, otherwise string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[i+1:]
	}
	return otherwise
}

func override(text string, with ...any) (string, error) {
	out := map[string]any{}
	for _, w := range append([]any{text}, with...) {
		switch w := w.(type) {
		case string:
			var m map[string]any
			if err := yaml.UnmarshalStrict([]byte(w), &m); err != nil {
				return "", fmt.Errorf("read a map: %w", err)
			}
			maps.Copy(out, m)
		case map[string]string:
			for k, v := range w {
				out[k] = v
			}
		default:
			return "", fmt.Errorf("%T is not a map", w)
		}
	}
	return toYAML(out)
}

func variables(text string) (string, error) {
	var m map[string]string
	if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
		return "", fmt.Errorf("read a map: %w", err)
	}
	var out []map[string]string
	for _, n := range slices.Sorted(maps.Keys(m)) {
		out = append(out, map[string]string{"name": n, "value": m[n]})
	}
	return toYAML(out)
}

// plain returns the text of a value, or of what a pointer leads to; "" for nil.
func plain(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case *string:
		if x == nil {
			return ""
		}
		return *x
	case *bool:
		if x == nil {
			return ""
		}
		return strconv.FormatBool(*x)
	case *int32:
		if x == nil {
			return ""
		}
		return strconv.Itoa(int(*x))
	case *int64:
		if x == nil {
			return ""
		}
		return strconv.FormatInt(*x, 10)
	case *int:
		if x == nil {
			return ""
		}
		return strconv.Itoa(*x)
	case interface{ String() string }:
		if s := x.String(); s != "<nil>" { // the text of a nil quantity
			return s
		}
		return ""
	}
	return fmt.Sprint(v)
}

// toYAML writes a value as YAML without the final line end.
func toYAML(v any) (string, error) {
	text, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(text), "\n"), err
}

// noImageName replaces functions that name images when no manifest is filled in.
func noImageName(string) (string, error) { return "", errors.New("images are named in manifests only") }
