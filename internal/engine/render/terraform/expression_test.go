package terraform

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"kops.local/kops/internal/engine/resource"
)

// texts contain everything that has a special meaning in templates.
func texts() []string {
	alphabet := []string{"$", "%", "{", "}", `"`, `\`, "\n", "a"}
	out := []string{""}
	for from, length := 0, 0; length < 4; length++ {
		end := len(out)
		for _, head := range out[from:end] {
			for _, c := range alphabet {
				out = append(out, head+c)
			}
		}
		from = end
	}
	return append(out, "$${x}", "%%{if}", "${~x~}", "é\t\x00\U0001F600", "\r\n")
}

func evaluate(t *testing.T, e hcl.Expression, vars map[string]cty.Value) string {
	t.Helper()
	v, diags := e.Value(&hcl.EvalContext{Variables: vars})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return v.AsString()
}

func TestEveryTextMeansItselfInAnExpression(t *testing.T) {
	vpc := networks.New("n", network{})
	w, err := newWriter(Document{Graph: graphOf(t, vpc)})
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]cty.Value{"aws_vpc": cty.ObjectVal(map[string]cty.Value{"n": cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("ID")})})}
	for _, s := range texts() {
		for _, v := range []resource.Value{
			resource.Lit(s),
			resource.Concat(resource.Lit(s), vpc.Out("id")),
			resource.Concat(vpc.Out("id"), resource.Lit(s), vpc.Out("id"), resource.Lit(s)),
			resource.Concat(resource.Lit(s), resource.Lit("{x}")),
		} {
			text, err := w.value(v)
			if err != nil {
				t.Fatal(err)
			}
			e, diags := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
			if diags.HasErrors() {
				t.Fatalf("%q as %s: %v", v, text, diags)
			}
			want, _ := v.Resolve(func(resource.Address, string) (string, bool) { return "ID", true }).Known()
			if got := evaluate(t, e, vars); got != want {
				t.Fatalf("%q is written as %s, which means %q", want, text, got)
			}
		}
	}
}

func TestEveryTextMeansItselfInATemplateFile(t *testing.T) {
	vpc := networks.New("n", network{})
	for _, s := range texts() {
		w, err := newWriter(Document{Graph: graphOf(t, vpc)})
		if err != nil {
			t.Fatal(err)
		}
		c := resource.Text(resource.Concat(resource.Lit(s), vpc.Out("id"), resource.Lit(s)))
		if _, err := w.content(c, resource.Attribute{File: true}, "f"); err != nil {
			t.Fatal(err)
		}
		e, diags := hclsyntax.ParseTemplate(w.files["f"], "", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%q as %s: %v", s, w.files["f"], diags)
		}
		if got := evaluate(t, e, map[string]cty.Value{"aws_vpc_n_id": cty.StringVal("ID")}); got != s+"ID"+s {
			t.Fatalf("%q is written as %q, which means %q", s, w.files["f"], got)
		}
	}
}

func TestTemplateVariablesDoNotCollide(t *testing.T) {
	vars, names := map[string]string{}, map[string]string{}
	for _, c := range []struct{ ref, want string }{
		{"aws_x.a-b.id", "aws_x_a_b_id"}, {"aws_x.a_b.id", "aws_x_a_b_id_2"}, {"aws_x.a-b.id", "aws_x_a_b_id"}, {"aws_x.a.b_id", "aws_x_a_b_id_3"},
	} {
		if got := variable(c.ref, vars, names); got != c.want {
			t.Errorf("%s: got %s, want %s", c.ref, got, c.want)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ kind, name, want string }{
		{"aws_vpc", "minimal.example.com", "minimal-example-com"},
		{"aws_vpc", "123.example.com", "prefix_123-example-com"},
		{"aws_route", "route-::/0", "route-__--0"},
		{"aws_security_group_rule", "from-::/0-ingress", "from-__--0-ingress"},
		{"aws_s3_object", "cluster-completed.spec", "cluster-completed-spec"},
		{"hcloud_ssh_key", "a-c4:a6", "a-c4_a6"},
		{"aws_iam_role", "*.x y@z", "prefix__-x_y_z"},
		{"aws_iam_role", "_x", "_x"},
	} {
		got := label(resource.Address{Kind: c.kind, Name: c.name})
		if got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.kind, c.name, got, c.want)
		}
		if !hclsyntax.ValidIdentifier("a" + got) {
			t.Errorf("%s is not a name", got)
		}
	}
}

func TestNamesOfFiles(t *testing.T) {
	for name, want := range map[string]string{
		"masters.a.example.com": "data/k_masters.a.example.com",
		"key-c4:a6:ed":          "data/k_key-c4a6ed",
		"../../etc/passwd":      "data/k_..--..--etc--passwd",
	} {
		if got := dataName(resource.Address{Kind: "k", Name: name}); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
