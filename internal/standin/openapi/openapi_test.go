package openapi_test

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"

	"kops.local/kops/internal/standin/openapi"
	"kops.local/kops/internal/standin/tree"
)

const document = `{"openapi": "3.1.0", "paths": {
"/lamps": {
	"get": {"parameters": [
		{"name": "color", "in": "query", "schema": {"type": "array", "items": {"$ref": "#/components/schemas/color"}}},
		{"name": "tags", "in": "query", "style": "form", "explode": false, "schema": {"type": "array", "items": {"type": "string"}, "maxItems": 2}},
		{"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1}},
		{"name": "lit", "in": "query", "schema": {"type": "boolean"}},
		{"name": "room", "in": "query", "required": true, "schema": {"type": "string"}},
		{"name": "trace", "in": "header", "required": true, "schema": {"type": "string"}}],
		"responses": {"200": {"content": {"application/json": {"schema": {"type": "object", "properties": {"lamps": {"type": "array", "items": {"$ref": "#/components/schemas/lamp"}}}}}}},
			"4XX": {"content": {"application/json": {"schema": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}}}}}}},
	"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/lamp"}}}},
		"responses": {"201": {"content": {"application/json": {"schema": {"allOf": [{"$ref": "#/components/schemas/lamp"}, {"properties": {"action": {"type": "integer"}}}]}}}}, "default": {}}}},
"/lamps/off": {"post": {"responses": {"204": {}}}},
"/lamps/{id}": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
	"get": {"responses": {"202": {}}}, "delete": {"responses": {"default": {}}}},
"/lamps/{id}/picture": {"put": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}], "requestBody": {"content": {"image/png": {"schema": {"type": "string"}}}}, "responses": {"204": {}}}}},
"components": {"schemas": {
	"color": {"enum": ["red", "green", 7]},
	"lamp": {"type": "object", "required": ["name"], "properties": {
		"name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
		"color": {"anyOf": [{"$ref": "#/components/schemas/color"}, {"type": "null"}]},
		"watts": {"type": ["integer", "null"], "minimum": 5, "maximum": 100, "multipleOf": 5},
		"share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
		"version": {"const": "v1"},
		"made": {"type": "string", "format": "date-time"}, "id": {"type": "string", "format": "uuid"}, "v4": {"type": "string", "format": "ipv4"}, "v6": {"type": "string", "format": "ipv6"},
		"labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
		"codes": {"type": "object", "patternProperties": {"^x-": {"type": "boolean"}}, "additionalProperties": false},
		"rooms": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": true},
		"base": {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"$ref": "#/components/schemas/inner"}}}]},
		"either": {"oneOf": [{"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}, {"type": "object", "required": ["y"], "properties": {"y": {"type": "object", "properties": {"z": {"type": "string"}}}}}]},
		"free": {"type": "object", "description": "anything"},
		"parts": {"type": "array", "items": {"$ref": "#/components/schemas/lamp"}},
		"never": false, "any": true}},
	"inner": {"type": "object", "properties": {"c": {"type": "string"}}}}}}`

func read(t *testing.T) *openapi.Document {
	t.Helper()
	d, err := openapi.Read([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func operation(t *testing.T, id string) *openapi.Operation {
	t.Helper()
	verb, path, _ := strings.Cut(id, " ")
	o, _, _ := read(t).Find(verb, path)
	if o == nil || o.ID != id {
		t.Fatalf("%s is %+v", id, o)
	}
	return o
}

func decode(t *testing.T, text string) any {
	t.Helper()
	v, err := tree.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// expect fails the test unless err is the wanted error; "" for none.
func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if fmt.Sprint(err) != want && !(err == nil && want == "") {
		t.Errorf("%s: got %v, want %s", what, err, want)
	}
}

func TestFind(t *testing.T) {
	d := read(t)
	for _, tt := range []struct {
		verb, path, id string
		variables      map[string]string
		elsewhere      bool
	}{
		{"GET", "/lamps", "GET /lamps", nil, false},
		{"PUT", "/lamps", "", nil, true},
		{"POST", "/lamps/off", "POST /lamps/off", nil, false},
		{"GET", "/lamps/off", "GET /lamps/{id}", map[string]string{"id": "off"}, false},
		{"GET", "/lamps/a%2Fb", "GET /lamps/{id}", map[string]string{"id": "a/b"}, false},
		{"GET", "/lamps/a%zz", "", nil, false},
		{"GET", "/lamps/", "", nil, false},
		{"GET", "/", "", nil, false},
		{"GET", "/doors", "", nil, false},
		{"PUT", "/lamps/7/picture", "PUT /lamps/{id}/picture", map[string]string{"id": "7"}, false},
	} {
		o, variables, elsewhere := d.Find(tt.verb, tt.path)
		id := ""
		if o != nil {
			id = o.ID
		}
		if id != tt.id || !maps.Equal(variables, tt.variables) || elsewhere != tt.elsewhere {
			t.Errorf("%s %s is %q with %v, elsewhere %t", tt.verb, tt.path, id, variables, elsewhere)
		}
	}
	if got := strings.Join(d.Operations(), ", "); got != "DELETE /lamps/{id}, GET /lamps, GET /lamps/{id}, POST /lamps, POST /lamps/off, PUT /lamps/{id}/picture" {
		t.Error(got)
	}
}

func TestQuery(t *testing.T) {
	list := operation(t, "GET /lamps")
	for query, want := range map[string]string{
		"room=a": "",
		"room=a&color=red&color=green&tags=x,y&page=2&lit=true": "",
		"":                          "room: it is required",
		"room=a&room=b":             "room: it is set 2 times",
		"room=a&size=1":             "size: there is no such query parameter",
		"room=a&trace=1":            "trace: there is no such query parameter",
		"room=a&color=blue":         `color[0]: got "blue", which is not one of ["red","green",7]`,
		"room=a&color=red,green":    `color[0]: got "red,green", which is not one of ["red","green",7]`,
		"room=a&tags=x,y,z":         "tags: it has 3 items; the maximum is 2",
		"room=a&page=0":             "page: 0 is too small",
		"room=a&page=one":           `page: got "one", which is not of type integer`,
		"room=a&page=1.5":           "page: got 1.5, which is not of type integer",
		"room=a&lit=maybe":          `lit: got "maybe", which is not of type boolean`,
		"room=a&page=1&page=2":      "page: it is set 2 times",
		"room=true&color=red&lit=0": "",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, query, list.Query(nil, values), want)
	}
	get := operation(t, "GET /lamps/{id}")
	expect(t, "a number", get.Query(map[string]string{"id": "7"}, nil), "")
	expect(t, "a name", get.Query(map[string]string{"id": "off"}, nil), `id: got "off", which is not of type integer`)
	expect(t, "another variable", get.Query(map[string]string{"name": "off"}, nil), "name: the path has no such variable")
}

func TestBody(t *testing.T) {
	create := operation(t, "POST /lamps")
	for body, want := range map[string]string{
		`{"name":"ab"}`:                "",
		`null`:                         "got null, which is not of type object",
		`[]`:                           "got [], which is not of type object",
		`{}`:                           "name: it is required",
		`{"name":null}`:                "name: got null, which is not of type string",
		`{"name":"a"}`:                 "name: it has 1 characters; the minimum is 2",
		`{"name":"abcdef"}`:            "name: it has 6 characters; the maximum is 5",
		`{"name":"AB"}`:                `name: got "AB", which does not match ^[a-z]+$`,
		`{"name":"ab","size":1}`:       "size: there is no such field",
		`{"name":"ab","color":null}`:   "",
		`{"name":"ab","color":7}`:      "",
		`{"name":"ab","color":"blue"}`: `color: got "blue", which is not one of ["red","green",7]`,
		`{"name":"ab","watts":null}`:   "",
		`{"name":"ab","watts":10.0}`:   "",
		`{"name":"ab","watts":7}`:      "watts: 7 is not a multiple of 5",
		`{"name":"ab","watts":0}`:      "watts: 0 is too small",
		`{"name":"ab","watts":105}`:    "watts: 105 is too large",
		`{"name":"ab","watts":"10"}`:   `watts: got "10", which is not of type integer or null`,
		`{"name":"ab","watts":10.5}`:   `watts: got 10.5, which is not of type integer or null`,
		`{"name":"ab","share":0.5}`:    "",
		`{"name":"ab","share":0}`:      "share: 0 is too small",
		`{"name":"ab","share":1}`:      "share: 1 is too large",
		`{"name":"ab","version":"v1"}`: "",
		`{"name":"ab","version":"v2"}`: `version: got "v2", which is not "v1"`,
		`{"name":"ab","made":"2026-01-02T03:04:05Z","id":"8b7f4a0e-1d1c-4b7e-9c52-0d1f3a7e2b11","v4":"10.0.0.1","v6":"fd00::1"}`: "",
		`{"name":"ab","made":"","id":"","v4":"","v6":""}`:                                                                        "",
		`{"name":"ab","made":"yesterday"}`:                                                                                       `made: got "yesterday", which does not have the format date-time`,
		`{"name":"ab","id":"8b7f4a0e"}`:                                                                                          `id: got "8b7f4a0e", which does not have the format uuid`,
		`{"name":"ab","v4":"fd00::1"}`:                                                                                           `v4: got "fd00::1", which does not have the format ipv4`,
		`{"name":"ab","v6":"10.0.0.1"}`:                                                                                          `v6: got "10.0.0.1", which does not have the format ipv6`,
		`{"name":"ab","labels":{"a":"b","c":"d"}}`:                                                                               "",
		`{"name":"ab","labels":{"a":1}}`:                                                                                         "labels.a: got 1, which is not of type string",
		`{"name":"ab","labels":{"a":"b","c":"d","e":"f"}}`:                                                                       "labels: it has 3 fields; the maximum is 2",
		`{"name":"ab","codes":{"x-a":true}}`:                                                                                     "",
		`{"name":"ab","codes":{"x-a":1}}`:                                                                                        "codes.x-a: got 1, which is not of type boolean",
		`{"name":"ab","codes":{"y":true}}`:                                                                                       "codes.y: it is not allowed",
		`{"name":"ab","rooms":["a","b"]}`:                                                                                        "",
		`{"name":"ab","rooms":[]}`:                                                                                               "rooms: it has 0 items; the minimum is 1",
		`{"name":"ab","rooms":["a","a"]}`:                                                                                        `rooms: "a" is listed twice`,
		`{"name":"ab","rooms":["a",1]}`:                                                                                          "rooms[1]: got 1, which is not of type string",
		`{"name":"ab","base":{"a":"1","b":{"c":"2"}}}`:                                                                           "",
		`{"name":"ab","base":{"c":"1"}}`:                                                                                         "base.c: there is no such field",
		`{"name":"ab","base":{"b":{"d":"2"}}}`:                                                                                   "base.b.d: there is no such field",
		`{"name":"ab","either":{"x":"1"}}`:                                                                                       "",
		`{"name":"ab","either":{"y":{"z":"1"}}}`:                                                                                 "",
		`{"name":"ab","either":{"y":{"z":1}}}`:                                                                                   "either.y.z: got 1, which is not of type string",
		`{"name":"ab","either":{"x":"1","y":{}}}`:                                                                                "",
		`{"name":"ab","either":{"x":"1","w":{}}}`:                                                                                "either.w: there is no such field",
		`{"name":"ab","either":{"y":{"w":"1"}}}`:                                                                                 "either.y.w: there is no such field",
		`{"name":"ab","free":{"a":{"b":1}}}`:                                                                                     "",
		`{"name":"ab","parts":[{"name":"cd"},{"name":"CD"}]}`:                                                                    `parts[1].name: got "CD", which does not match ^[a-z]+$`,
		`{"name":"ab","parts":[{"name":"cd","parts":[{}]}]}`:                                                                     "parts[0].parts[0].name: it is required",
		`{"name":"ab","never":1}`:                                                                                                "never: it is not allowed",
		`{"name":"ab","any":{"thing":["goes"]},"parts":[]}`:                                                                      "",
	} {
		expect(t, body, create.Body(decode(t, body)), want)
	}
	off := operation(t, "POST /lamps/off")
	expect(t, "no body", off.Body(nil), "")
	expect(t, "a body", off.Body(decode(t, `{}`)), "the method has no request body")
	expect(t, "not JSON", operation(t, "PUT /lamps/{id}/picture").Body("PNG"), "")
}

func TestAnswer(t *testing.T) {
	list, create := operation(t, "GET /lamps"), operation(t, "POST /lamps")
	for _, tt := range []struct {
		o      *openapi.Operation
		status int
		body   string
		want   string
	}{
		{list, 200, `{"lamps":[{"name":"ab"}]}`, ""},
		{list, 200, `{"lamps":[{"name":"ab","size":1}]}`, "response 200 of GET /lamps: lamps[0].size: there is no such field"},
		{list, 200, `{"lamps":[{}]}`, "response 200 of GET /lamps: lamps[0].name: it is required"},
		{list, 404, `{"error":{"code":"not_found"}}`, ""},
		{list, 404, `{}`, "response 404 of GET /lamps: error: it is required"},
		{list, 500, `{}`, "response 500 of GET /lamps: the status 500 is not listed"},
		{create, 201, `{"name":"ab","action":7}`, ""},
		{create, 500, ``, ""},
		{create, 500, `{}`, "response 500 of POST /lamps: it has no body, but got map[]"},
		{create, 201, ``, "response 201 of POST /lamps: got null, which is not of type object"},
	} {
		expect(t, fmt.Sprint(tt.o.ID, tt.status, tt.body), tt.o.Answer(tt.status, decode(t, tt.body)), tt.want)
	}
	if !create.Has(201, "action") || !create.Has(201, "name") || create.Has(201, "size") || create.Has(500, "action") || !list.Has(400, "error") {
		t.Error("the fields of responses are not found")
	}
	for id, want := range map[string]int{"GET /lamps": 200, "POST /lamps": 201, "GET /lamps/{id}": 202, "POST /lamps/off": 204, "DELETE /lamps/{id}": 0} {
		if got := operation(t, id).Success(); got != want {
			t.Errorf("%s succeeds with %d, not %d", id, got, want)
		}
	}
}

func TestDocumentsThatAreWrong(t *testing.T) {
	for name, tt := range map[string]struct{ old, new, want string }{
		"no JSON":                {"{", "", "invalid character"},
		"a reference":            {"#/components/schemas/inner", "#/components/schemas/outer", "there is no schema #/components/schemas/outer"},
		"a type":                 {`"type": ["integer", "null"]`, `"type": "int"`, `there is no type "int"`},
		"a keyword":              {`"minItems"`, `"minimumItems"`, "minimumItems"},
		"a reference of a query": {`{"type": "array", "items": {"type": "string"}, "maxItems": 2}`, `{"$ref": "x"}`, "get /lamps: there is no schema x"},
		"a shared parameter":     {`{"type": "integer"}}],`, `7}],`, "the parameters of /lamps/{id}"},
		"no schema":              {`"schema": {"type": "boolean"}`, `"style": "form"`, "the parameter lit has no schema"},
	} {
		text := strings.Replace(document, tt.old, tt.new, 1)
		if _, err := openapi.Read([]byte(text)); text == document || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
