package template

import (
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/template"
)

// functions returns sprig's functions, include, which withInclude replaces, conversions of YAML,
// and a printf for the numbers in values. Sprig links text/template, but not the parts of it that
// look up methods.
func functions() template.Funcs {
	all := template.Funcs(sprig.GenericFuncMap())
	all["include"] = func(string, any) string { return "" }
	all["toYaml"] = func(v any) (string, error) {
		text, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	all["fromYaml"] = func(text string) (any, error) {
		data, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			return nil, err
		}
		return decode(data)
	}
	all["printf"] = func(format string, args ...any) string {
		for i, a := range args {
			switch a.(type) {
			case int64, float64:
				args[i] = number{a}
			}
		}
		return fmt.Sprintf(format, args...)
	}
	all["until"] = func(count int) ([]int, error) {
		if count < 0 {
			return numbers(0, count, -1)
		}
		return numbers(0, count, 1)
	}
	all["untilStep"] = numbers
	all["getHostByName"] = func(name string) (string, error) { // sprig's panics without an address
		addresses, err := net.LookupHost(name)
		if err != nil {
			return "", err
		}
		return addresses[0], nil
	}
	return all
}

// maxNumbers limits a list of numbers.
const maxNumbers = 1_000_000

// numbers lists the numbers from start until before stop, as sprig's untilStep does.
func numbers(start, stop, step int) ([]int, error) {
	var distance, size uint64 // which do not overflow
	switch {
	case step > 0 && start < stop:
		distance, size = uint64(stop)-uint64(start), uint64(step)
	case step < 0 && start > stop:
		distance, size = uint64(start)-uint64(stop), -uint64(step)
	default:
		return []int{}, nil
	}
	count := (distance-1)/size + 1
	if count > maxNumbers {
		return nil, fmt.Errorf("the list from %d to %d has more than %d numbers", start, stop, maxNumbers)
	}
	out := make([]int, count)
	for i := range out {
		out[i] = start + i*step
	}
	return out, nil
}

// number formats a number in values with verbs for integers and for others, because a values file
// does not distinguish 3 from 3.0, and a program that writes one may choose either.
type number struct{ value any }

// Format implements fmt.Formatter.
func (n number) Format(f fmt.State, verb rune) {
	v := n.value
	switch x := v.(type) {
	case int64:
		if strings.ContainsRune("eEfFgG", verb) {
			v = float64(x)
		}
	case float64:
		if strings.ContainsRune("cdoOU", verb) && x == math.Trunc(x) {
			v = int64(x)
		}
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), v) //nolint:errcheck // fmt.State does not fail
}

// method returns the method of a value that a sprig function returned, or nil.
func method(of any, name string) any {
	switch v := of.(type) {
	case time.Time:
		return timeMethods(v)[name]
	case time.Duration:
		return map[string]any{
			"Hours": v.Hours, "Minutes": v.Minutes, "Seconds": v.Seconds, "Milliseconds": v.Milliseconds,
			"Round": v.Round, "Truncate": v.Truncate, "String": v.String,
		}[name]
	case *semver.Version:
		return map[string]any{
			"Major": v.Major, "Minor": v.Minor, "Patch": v.Patch, "Prerelease": v.Prerelease, "Metadata": v.Metadata,
			"IncMajor": v.IncMajor, "IncMinor": v.IncMinor, "IncPatch": v.IncPatch, "Original": v.Original, "String": v.String,
			"Compare": v.Compare, "Equal": v.Equal, "LessThan": v.LessThan, "GreaterThan": v.GreaterThan,
		}[name]
	case semver.Version: // the result of IncMajor and similar methods
		return method(&v, name)
	case fmt.Stringer:
		return map[string]any{"String": v.String}[name]
	}
	return nil
}

func timeMethods(t time.Time) map[string]any {
	return map[string]any{
		"Year": t.Year, "Month": t.Month, "Day": t.Day, "Hour": t.Hour, "Minute": t.Minute, "Second": t.Second, "Nanosecond": t.Nanosecond,
		"Weekday": t.Weekday, "YearDay": t.YearDay, "Unix": t.Unix, "UnixMilli": t.UnixMilli, "UnixMicro": t.UnixMicro, "UnixNano": t.UnixNano,
		"Format": t.Format, "String": t.String, "UTC": t.UTC, "Local": t.Local, "Location": t.Location, "IsZero": t.IsZero,
		"Add": t.Add, "AddDate": t.AddDate, "Sub": t.Sub, "Round": t.Round, "Truncate": t.Truncate,
		"After": t.After, "Before": t.Before, "Equal": t.Equal, "Compare": t.Compare,
	}
}
