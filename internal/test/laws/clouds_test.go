package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
)

// cloudNames match names that reveal that code is about one cloud. The names of this host and bare
// metal are ordinary words: only the API's constants and types reveal them.
var cloudNames = regexp.MustCompile(`\baws|AWS|Aws|[Aa]mazon|\b(ec2|gce|gcp)|EC2|GCE|GCP|[Rr]oute53|\barn:|[Gg]oogle|[Aa]zure|AZURE|[Oo]pen[Ss]tack|\bOS_|[Dd]igital[Oo]cean|` +
	`[Hh]etzner|[Hh]cloud|[Ll]inode|[Aa]kamai|[Ss]caleway|[Vv][Ss]phere|[Ss]potinst|Cloud(Local|Metal)\b|(Local|Metal)Spec\b`)

// others are things whose names contain the name of a cloud but that are not clouds.
var others = []struct {
	what  string
	where func(pkg string) bool
	name  *regexp.Regexp
}{
	{"stores: S3 is a protocol that many speak, with AWS' library and its variables", under("internal/store"), regexp.MustCompile(``)},
	{"the addresses of public stores", under("internal/contract/layout"), regexp.MustCompile(`s3|gs://|\.amazonaws\.com|storage\\?\.googleapis`)},
	{"pod networks", under("internal/spec", "internal/model", "internal/contract/nodeconfig", "internal/cli/create"),
		regexp.MustCompile(`^(AmazonVPC(NetworkingSpec)?|amazon|"amazonvpc"|"amazon-vpc-routed-eni"|GCP(NetworkingSpec)?|gcp|"gcp"|"gce")$`)},
	{"a program that tells users apart, and runs anywhere", under("internal/spec/validate", "internal/model", "internal/node/agent/node"),
		regexp.MustCompile(`aws-iam-authenticator|^(AWS|AWSAuthenticationSpec|awsAuthentication|"aws-authentication"|"spec\.authentication\.aws")$|, or spec\.authentication\.aws|arn:aws:iam::123456789012:role`)},
	{"distributions of Linux, and the users of their images", under("internal/spec/validate", "internal/node/agent"), regexp.MustCompile(`Amazon Linux|^amazon$|"ec2-user"`)},
	{"where gVisor is published", under("internal/node/agent/node"), regexp.MustCompile(`storage\.googleapis\.com/gvisor`)},
	{"fields of the configuration of machines, whose format is kOps'", under("internal/contract/nodeconfig"), regexp.MustCompile(`AzureAdminUser|Openstack`)},
}

// choices match the values that a switch over clouds distinguishes.
var choices = regexp.MustCompile(`^(AWS|GCE|Azure|Openstack|DO|Hetzner|Linode|Scaleway|Metal|Local|Cloud(AWS|GCE|Azure|Openstack|DO|DigitalOcean|Hetzner|Linode|Scaleway|Metal|Local))$`)

// canNameClouds reports whether a package may be about one cloud: the API has a block for
// each, the folder of a cloud is about it, and the lists name all.
func canNameClouds(short string) bool {
	return under("api", "internal/platform/providers", "internal/platform/nodes", "internal/platform/controls", "internal/platform/plays")(short) || cloudOf(short) != "" || isForTests(short) || under("e2e")(short)
}

// TestCloudsAreNamedInTheirFolders finds the names of clouds, in identifiers and texts,
// where they are not allowed.
func TestCloudsAreNamedInTheirFolders(t *testing.T) {
	used := make([]bool, len(others))
	for _, p := range list(t, "./...") {
		if canNameClouds(p.short()) {
			continue
		}
		eachFile(t, p, func(fset *token.FileSet, f *ast.File) {
			name := func(n ast.Node, text string) {
				if !cloudNames.MatchString(text) {
					return
				}
				for i, o := range others {
					if o.where(p.short()) && o.name.MatchString(text) {
						used[i] = true
						return
					}
				}
				t.Errorf("%s names a cloud, %s: what holds for one cloud only lives in its folder", fset.Position(n.Pos()), text)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.ImportSpec:
					return false // imports have their own laws
				case *ast.CaseClause:
					for _, e := range x.List {
						ast.Inspect(e, func(n ast.Node) bool {
							if id, ok := n.(*ast.Ident); ok && choices.MatchString(id.Name) {
								t.Errorf("%s chooses by the cloud, %s: let the platform say what differs", fset.Position(x.Pos()), id.Name)
							}
							return true
						})
					}
				case *ast.Ident:
					name(x, x.Name)
				case *ast.BasicLit:
					if x.Kind == token.STRING {
						name(x, x.Value)
					}
				}
				return true
			})
		})
	}
	for i, o := range others {
		if !used[i] {
			t.Errorf("nothing is called as %s: take them out of others", o.what)
		}
	}
}

// eachFile reads the files of a package, except tests.
func eachFile(t *testing.T, p pkg, f func(*token.FileSet, *ast.File)) {
	t.Helper()
	for _, name := range p.GoFiles {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		f(fset, file)
	}
}

// TestKindsAreNamedOnce checks that the name of a kind is written only where the kind is
// declared: all other code refers to the kind.
func TestKindsAreNamedOnce(t *testing.T) {
	kinds := map[string]bool{}
	for _, p := range providers.All(platform.World{}) {
		for _, k := range p.Kinds {
			kinds[k.KindName()] = true
		}
	}
	found := map[string][]string{}
	for _, p := range list(t, "./...") {
		if isForTests(p.short()) {
			continue
		}
		eachFile(t, p, func(fset *token.FileSet, f *ast.File) {
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && kinds[text] {
						found[text] = append(found[text], fset.Position(lit.Pos()).String())
					}
				}
				return true
			})
		})
	}
	for kind, places := range found {
		if len(places) > 1 {
			t.Errorf("%s is written %d times; refer to the kind:\n\t%s", kind, len(places), strings.Join(places, "\n\t"))
		}
	}
}
