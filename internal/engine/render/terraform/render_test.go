package terraform

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/engine/resource"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func required() map[string]RequiredProvider {
	return map[string]RequiredProvider{
		"aws":    {Source: "hashicorp/aws", Version: ">= 5.0.0", Aliases: []string{"aws.files"}},
		"google": {Source: "hashicorp/google", Version: ">= 5.11.0"},
	}
}

// cluster returns a document with what most clusters have.
func cluster(t *testing.T) Document {
	yes, no, two := true, false, 2
	vpc := networks.New("a.example.com", network{CIDR: "172.20.0.0/16", DNS: &yes, Tags: map[string]string{
		"Name": "a.example.com", "kubernetes.io/cluster/a.example.com": "owned", "empty": ""}})
	zone := subnets.New("eu-1a.a.example.com", subnet{Network: vpc.Out("id"), CIDR: resource.Lit("172.20.32.0/19"), Hidden: "not written"})
	router := tables.New("a.example.com", table{Network: vpc.Out("id"), Tags: map[string]resource.Value{
		"arn": vpc.Out("arn"), "both": resource.Concat(resource.Lit("in/"), vpc.Out("id"), resource.Lit("/end")), "Name": resource.Lit("x")}})
	way := routes.New("route-0.0.0.0/0", route{Table: router.Out("id"), Destination: "0.0.0.0/0"})
	way6 := routes.New("route-::/0", route{Table: router.Out("id")})
	lt := templates.New("nodes.a.example.com", template{
		Name: "nodes.a.example.com",
		Devices: []device{
			{Name: "/dev/xvda", Disk: &disk{Size: 64, Encrypted: &no}},
			{Name: "/dev/sdc", Virtual: "ephemeral0"},
		},
		NIC:      nic{Groups: []resource.Value{resource.Lit("sg-2"), resource.Lit("sg-1")}},
		UserData: resource.Text(resource.Lit("#!/bin/bash\necho ${HOME} %{x}\n")),
	})
	asg := groups.New("nodes.a.example.com", group{
		Name: "nodes.a.example.com", Max: &two, Subnets: []resource.Value{zone.Out("id")},
		Template: launch{ID: lt.Out("id"), Version: lt.Out("version")},
	})
	asg.After = []resource.Address{way.Address, lt.Address}
	profile := roles.New("nodes.a.example.com", role{Name: "nodes.a.example.com", Policy: resource.Text(resource.Lit("{}\n"))})
	events := queues.New("a-example-com-nth", queue{Name: "a-example-com-nth", Policy: resource.Text(resource.Concat(
		resource.Lit("{\"Resource\": \""), profile.Out("arn"), resource.Lit("\", \"Again\": \""), profile.Out("arn"), resource.Lit("\", \"Cost\": \"$"), vpc.Out("id"), resource.Lit("${aws:x}\"}")))})
	spec := objects.New("cluster-completed.spec", object3{
		Bucket: "state", Key: "a.example.com/cluster-completed.spec", Content: resource.Text(resource.Lit("kind: Cluster\n")), Provider: "aws.files"})
	secret := keysets.New("ca", keyset{Key: resource.SecretText("private")})
	return Document{
		Graph: graphOf(t, secret, spec, vpc, zone, router, way6, way, lt, asg, profile, events),
		Outputs: map[string]Expression{
			"cluster_name":         Of(resource.Lit("a.example.com")),
			"node_subnet_ids":      List(zone.Out("id"), resource.Lit("subnet-b"), resource.Lit("subnet-a"), zone.Out("id")),
			"none":                 List(),
			"vpc_cidr_block":       Of(vpc.Out("cidr_block")),
			"vpc_ipv6_cidr_block":  Of(vpc.Out("ipv6_cidr_block")),
			"vpc_ipv6_cidr_length": Raw(`local.vpc_ipv6_cidr_block == "" ? null : tonumber(regex(".*/(\\d+)", local.vpc_ipv6_cidr_block)[0])`),
		},
		Providers: []Provider{
			{Name: "aws", Attributes: map[string]string{"region": "eu-1", "profile": "p"}},
			{Name: "aws", Alias: "files", Attributes: map[string]string{"region": "eu-2"}, Endpoints: map[string]string{"s3": "https://minio.example.com"}},
		},
		RequiredVersion: ">= 0.15.0", RequiredProviders: required(),
	}
}

// documentWithExistingNetwork returns a document whose network already exists.
func documentWithExistingNetwork(t *testing.T) Document {
	vpc := networks.Adopt("shared.example.com", "vpc-12345678", network{ARN: "arn:vpc"})
	owned := networks.New("owned.example.com", network{CIDR: "10.0.0.0/8"})
	unused := networks.Adopt("unused.example.com", "vpc-9", network{})
	router := markExisting(tables.New("main", table{Network: vpc.Out("id")}))
	existing := roles.Adopt("nodes.shared.example.com", "custom-role", role{Unit: "custom-role"})
	zone := subnets.New("eu-1a.shared.example.com", subnet{Network: vpc.Out("id"), CIDR: resource.Concat(resource.Lit("arn="), vpc.Out("arn"))})
	zone.After = []resource.Address{vpc.Address, owned.Address}
	return Document{
		Graph: graphOf(t, vpc, unused, owned, existing, zone, router),
		Outputs: map[string]Expression{
			"vpc_id":         Of(vpc.Out("id")),
			"vpc_cidr_block": Of(vpc.Out("cidr_block")),
			"role_name":      Of(existing.Out("name")),
			"role_arn":       Of(existing.Out("arn")),
			"role.id":        Of(existing.Out("id")),
			"route_table_id": Of(router.Out("id")),
			"route_table":    Of(router.Out("name")),
		},
		Data: map[resource.Address]Lookup{
			existing.Address: {By: map[string]string{"name": "custom-role"}},
			router.Address:   {By: map[string]string{"vpc_id": "vpc-12345678"}, Tags: map[string]string{"Name": "main"}, Known: map[string]string{"name": "main"}},
		},
		Providers: []Provider{{Name: "hcloud"}},
	}
}

// markExisting marks a node as existing, so that it is not written.
func markExisting(n resource.Node) resource.Node {
	n.Expect = true
	return n
}

// odd returns a document with spellings that few kinds need.
func odd(t *testing.T) Document {
	vpc := networks.New("n", network{})
	server := machines.New("etcd-1:a/b c", machine{
		Count: 1, Name: `"server-${count.index}"`,
		Metadata: metadata{Cluster: "a\tb", UserData: resource.Text(resource.Lit("hello"))},
		Key:      resource.Text(resource.Lit("ssh-rsa AAAA")),
		Keep:     keep{Ignore: []string{"target_size", "tags"}},
		Ports:    []port{{22, "tcp"}, {53, ""}},
		Disks:    []disk{{Size: 1}, {Size: 2}, {}},
		Texts: map[string]resource.Content{
			"keys":   resource.Text(resource.Lit("one line")),
			"script": resource.Text(resource.Lit("#!/bin/sh\necho ${HOME}\n")),
			"joins":  resource.Text(resource.Concat(resource.Lit("at: "), vpc.Out("id"))),
			"boot":   resource.Text(resource.Concat(resource.Lit("at:\n- "), vpc.Out("id"), resource.Lit("\n"))),
		},
		Note: "one line",
	})
	shared := networks.Adopt("shared", "project/net", network{})
	zone := subnets.New("s", subnet{Network: shared.Out("id")})
	return Document{Graph: graphOf(t, vpc, server, shared, zone),
		Data: map[resource.Address]Lookup{shared.Address: {Known: map[string]string{"id": "projects/project/networks/net"}}}}
}

func TestRenderedFiles(t *testing.T) {
	for name, doc := range map[string]Document{"cluster": cluster(t), "shared": documentWithExistingNetwork(t), "odd": odd(t)} {
		t.Run(name, func(t *testing.T) {
			files, err := Render(doc)
			if err != nil {
				t.Fatal(err)
			}
			archive := &txtar.Archive{}
			for _, f := range sortedKeys(files) {
				archive.Files = append(archive.Files, txtar.File{Name: f, Data: append(bytes.TrimSuffix(files[f], []byte("\n")), '\n')})
			}
			got, golden := txtar.Format(archive), filepath.Join("testdata", name+".txtar")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("%s (-want +got; -update rewrites):\n%s", golden, d)
			}
		})
	}
}

func TestRenderedFilesFitTheProvidersSchema(t *testing.T) {
	for name, doc := range map[string]Document{"cluster": cluster(t), "odd": odd(t)} {
		t.Run(name, func(t *testing.T) {
			files, err := Render(doc)
			if err != nil {
				t.Fatal(err)
			}
			schematest.Validate(t, files)
		})
	}
}

func TestRenderedFilesAreFormatted(t *testing.T) {
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("terraform is not installed")
		}
		t.Skip("SKIPPED: terraform is not installed, so the format of what is rendered is not checked")
	}
	for name, doc := range map[string]Document{"cluster": cluster(t), "shared": documentWithExistingNetwork(t), "odd": odd(t)} {
		t.Run(name, func(t *testing.T) {
			files, err := Render(doc)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, MainFile), files[MainFile], 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(terraform, "fmt", "-check", "-diff", dir)
			cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("terraform fmt: %v\n%s", err, out)
			}
		})
	}
}

func TestCompatibleFilesHoldNothingThatKopsNeverWrote(t *testing.T) {
	doc := cluster(t)
	doc.Compatible = true
	files, err := Render(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"depends_on", "lifecycle"} {
		if bytes.Contains(files[MainFile], []byte(word)) {
			t.Errorf("there is %s in\n%s", word, files[MainFile])
		}
	}
}

// What a node needs is also in compatible documents, if the document itself has it.
func TestNodesDependOnWhatTheyNeed(t *testing.T) {
	a, b := networks.New("1.a", network{CIDR: "1"}), networks.New("b", network{CIDR: "2"})
	b.After, b.Needs = []resource.Address{networks.At("c")}, []resource.Address{a.Address, networks.At("elsewhere")}
	for _, compatible := range []bool{true, false} {
		c := networks.New("c", network{CIDR: "3"})
		want := "depends_on = [aws_vpc.c, aws_vpc.prefix_1-a]"
		if compatible {
			want = "depends_on = [aws_vpc.prefix_1-a]"
		}
		files, err := Render(Document{Graph: graphOf(t, a, c, b), Compatible: compatible})
		if text := strings.Join(strings.Fields(string(files[MainFile])), " "); err != nil || strings.Count(text, "depends_on") != 1 || !strings.Contains(text, want) {
			t.Errorf("%v; want %s once in\n%s", err, want, files[MainFile])
		}
	}
}

func TestOrderOfAdditionDoesNotShow(t *testing.T) {
	a := networks.New("a", network{CIDR: "1"})
	b := networks.New("b", network{CIDR: "2"})
	one, err := Render(Document{Graph: graphOf(t, a, b)})
	if err != nil {
		t.Fatal(err)
	}
	two, err := Render(Document{Graph: graphOf(t, b, a)})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(one, two); d != "" {
		t.Error(d)
	}
}

func TestWhatCannotBeRendered(t *testing.T) {
	vpc := networks.New("a.b", network{CIDR: "1"})
	ca := keysets.New("ca", keyset{})
	with := func(c resource.Content) resource.Node {
		return queues.New("q", queue{Name: "q", Policy: c})
	}
	for name, c := range map[string]struct {
		doc  Document
		want string
	}{
		"a secret": {
			Document{Graph: graphOf(t, with(resource.SecretText("hunter2")))},
			"render aws_sqs_queue/q: policy: it is secret, and must not be written to a file"},
		"a secret inline": {
			Document{Graph: graphOf(t, machines.New("m", machine{Key: resource.SecretText("hunter2")}))},
			"render toy_machine/m: public_key: it is secret, and must not be written to a file"},
		"a content known by digest": {
			Document{Graph: graphOf(t, with(resource.Digested("00")))},
			"render aws_sqs_queue/q: policy: only its digest is known"},
		"a text that is not UTF-8": {
			Document{Graph: graphOf(t, with(resource.Text(resource.Lit("\xff"))))},
			"render aws_sqs_queue/q: policy: its text is not UTF-8"},
		"two nodes with one label": {
			Document{Graph: graphOf(t, vpc, networks.New("a-b", network{}))},
			"aws_vpc/a.b and aws_vpc/a-b are both aws_vpc.a-b in Terraform"},
		"a reference to an unknown node": {
			Document{Graph: graphOf(t), Outputs: map[string]Expression{"x": Of(vpc.Out("id"))}},
			"render output x: it refers to aws_vpc/a.b, which is not rendered"},
		"a reference to an output of a direct kind": {
			Document{Graph: graphOf(t, ca, subnets.New("s", subnet{Network: ca.Out("id")}))},
			"render aws_subnet/s: vpc_id: it refers to keyset/ca.id, which is known only when keyset/ca is applied, and that has no Terraform type"},
		"a reference to what exists elsewhere": {
			Document{Graph: graphOf(t, markExisting(vpc), subnets.New("s", subnet{Network: vpc.Out("id")}))},
			"render aws_subnet/s: vpc_id: it refers to aws_vpc/a.b.id, which is not part of this configuration"},
		"two texts in one file": {
			Document{Graph: graphOf(t, queues.New("a:b", queue{Policy: resource.Text(resource.Lit("1"))}), queues.New("ab", queue{Policy: resource.Text(resource.Lit("2"))}))},
			"render aws_sqs_queue/ab: policy: two different texts would be written to data/aws_sqs_queue_ab_policy"},
		"every problem": {
			Document{Graph: graphOf(t), Outputs: map[string]Expression{"y": Of(vpc.Out("id")), "x": List(ca.Out("id"))}},
			"render output x: it refers to keyset/ca, which is not rendered\nrender output y: it refers to aws_vpc/a.b, which is not rendered"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := Render(c.doc)
			if err == nil || err.Error() != c.want {
				t.Errorf("got error  %v\nwant error %s", err, c.want)
			}
			if files != nil {
				t.Errorf("files besides an error: %v", sortedKeys(files))
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("the error shows the secret")
			}
		})
	}
}

func TestTerraformComputesDigestsOfTextsWithReferences(t *testing.T) {
	vpc := networks.New("a.b", network{CIDR: "1"})
	sum := resource.SHA256(resource.Concat(resource.Lit("\"of\n"), vpc.Out("id")))
	files, err := Render(Document{Graph: graphOf(t, vpc, queues.New("q", queue{Name: "q", Policy: resource.Text(resource.Concat(resource.Lit("sum "), sum))}))})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(files["data/aws_sqs_queue_q_policy"]); got != "sum ${sha256}" {
		t.Errorf("template %q", got)
	}
	if want := `= sha256(trimspace("\"of\n${aws_vpc.a-b.id}"))`; !strings.Contains(string(files[MainFile]), want) {
		t.Errorf("want %s in %s", want, files[MainFile])
	}
}

func TestAKnownOutputOfADirectKindIsALiteral(t *testing.T) {
	ca := keysets.New("ca", keyset{ID: "ca-1"})
	files, err := Render(Document{Graph: graphOf(t, ca), Outputs: map[string]Expression{"ca": Of(ca.Out("id"))}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "output \"ca\" {\n  value = \"ca-1\"\n}\n"; !strings.HasSuffix(string(files[MainFile]), want) {
		t.Errorf("got %s", files[MainFile])
	}
}
