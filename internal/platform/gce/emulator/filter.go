package emulator

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// filter reports whether a list contains an object.
type filter func(object) bool

func matchAll(object) bool { return true }

// parseFilter parses the filter parameter of lists: terms such as name = x, labels.k:*, name eq
// 'a.*' or status != RUNNING, joined by AND (or nothing) and OR; several terms must be in
// parentheses. See the description of the parameter in Compute Engine's API.
func parseFilter(s string) (filter, error) {
	p := &filterParser{words: filterWords().FindAllString(s, -1)}
	if len(p.words) == 0 {
		return matchAll, nil
	}
	f, err := p.parseExpression()
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("unexpected %s", p.words[0])
	}
	if err != nil {
		return nil, invalid("filter", s, "Invalid list filter expression: "+err.Error()+".")
	}
	return f, nil
}

var filterWords = pattern(`"(?:[^"\\]|\\.)*"|'[^']*'|!=|<=|>=|[()=<>]|[^\s()=<>!"']+`)

type filterParser struct{ words []string }

func (p *filterParser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *filterParser) next() string {
	w := p.peek()
	if w != "" {
		p.words = p.words[1:]
	}
	return w
}

// parseExpression parses terms joined by AND; according to AIP-160, OR has a higher precedence.
func (p *filterParser) parseExpression() (filter, error) {
	left, err := p.parseOr()
	for err == nil && p.peek() != "" && p.peek() != ")" {
		if p.peek() == "AND" {
			p.next()
		}
		var right filter
		if right, err = p.parseOr(); err == nil {
			a := left
			left = func(o object) bool { return a(o) && right(o) }
		}
	}
	return left, err
}

func (p *filterParser) parseOr() (filter, error) {
	left, err := p.parseTerm()
	for err == nil && p.peek() == "OR" {
		p.next()
		var right filter
		if right, err = p.parseTerm(); err == nil {
			a := left
			left = func(o object) bool { return a(o) || right(o) }
		}
	}
	return left, err
}

func (p *filterParser) parseTerm() (filter, error) {
	switch w := p.next(); w {
	case "":
		return nil, fmt.Errorf("it ends unexpectedly")
	case "NOT":
		f, err := p.parseTerm()
		return func(o object) bool { return !f(o) }, err
	case "(":
		f, err := p.parseExpression()
		if err == nil && p.next() != ")" {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		return f, err
	default:
		if field, value, ok := strings.Cut(w, ":"); ok && field != "" { // elsewhere, a colon is part of a URL
			if value == "" {
				value = unquote(p.next())
			}
			return comparison(field, ":", value)
		}
		operator, value := p.next(), p.next()
		if value == "" {
			return nil, fmt.Errorf("%s has no value to compare with", w)
		}
		return comparison(unquote(w), operator, unquote(value))
	}
}

func unquote(w string) string {
	if s, err := strconv.Unquote(w); err == nil && strings.HasPrefix(w, `"`) {
		return s
	}
	return strings.Trim(w, "'")
}

func comparison(field, operator, value string) (filter, error) {
	var fits func(string) bool
	switch operator {
	case "eq", "ne":
		r, err := regexp.Compile("^(?:" + value + ")$")
		if err != nil {
			return nil, err
		}
		fits = func(s string) bool { return r.MatchString(s) == (operator == "eq") }
	case "=":
		prefix, open := strings.CutSuffix(value, "*")
		fits = func(s string) bool { return s == value || open && strings.HasPrefix(s, prefix) }
	case "!=":
		fits = func(s string) bool { return s != value }
	case ":":
		prefix, open := strings.CutSuffix(value, "*")
		fits = func(s string) bool {
			return s == value || open && strings.HasPrefix(s, prefix) || !open && strings.Contains(s, value)
		}
	default:
		return nil, fmt.Errorf("the operator %q is not known", operator)
	}
	negative := operator == "ne" || operator == "!="
	return func(o object) bool {
		v, there := valueAt(o, field)
		if !there {
			return negative
		}
		if items, many := v.(list); many {
			for _, item := range items {
				if fits(fmt.Sprint(item)) {
					return true
				}
			}
			return false
		}
		return fits(fmt.Sprint(v))
	}, nil
}

// valueAt returns the value of a nested field, such as labels.a.
func valueAt(o object, field string) (any, bool) {
	if v, there := o[field]; there {
		return v, true
	}
	first, rest, deeper := strings.Cut(field, ".")
	if inner := tree.Sub(o, first); deeper && inner != nil {
		return valueAt(inner, strings.ReplaceAll(rest, `"`, ""))
	}
	return nil, false
}
