package schematest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const valid = `
locals {
  vpc_id = aws_vpc.a.id
}
provider "aws" {
  alias  = "files"
  region = "eu-1"
}
resource "aws_vpc" "a" {
  cidr_block = "10.0.0.0/16"
  tags = {
    "Name" = "a"
  }
}
resource "aws_subnet" "s" {
  ipv6_cidr_block = cidrsubnet(aws_vpc.a.ipv6_cidr_block, 8, 255)
  vpc_id          = aws_vpc.a.id
}
resource "aws_sqs_queue" "q" {
  name   = "q"
  policy = file("${path.module}/data/policy")
}
resource "aws_launch_template" "t" {
  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size = "8"
    }
  }
  lifecycle {
    create_before_destroy = true
  }
  tags      = {}
  user_data = base64encode(templatefile("${path.module}/data/script", { "vpc" = aws_vpc.a.id }))
}
resource "aws_autoscaling_group" "g" {
  max_size            = 1
  min_size            = 0
  vpc_zone_identifier = ["x", aws_vpc.a.id]
  tag {
    key                 = "k"
    propagate_at_launch = true
    value               = local.vpc_id
  }
}
output "length" {
  value = local.vpc_id == "" ? null : tonumber(regex(".*/(\\d+)", local.vpc_id)[0])
}
terraform {
  required_version = ">= 0.15.0"
}
`

func TestValidConfigurationHasNoProblem(t *testing.T) {
	Validate(t, map[string][]byte{"kubernetes.tf": []byte(valid), "data/policy": []byte("{}"), "data/script": []byte("echo ${vpc} $${HOME}")})
}

func TestEachProblemIsNamed(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"aws_sqs_queue" "q"`, `"aws_sqs_kueue" "q"`, `aws_sqs_kueue.q: no such type`},
		{`"aws_sqs_queue" "q"`, `"aws_sqs_queue" "q.x"`, `aws_sqs_queue.q.x: "q.x" is not a name`},
		{`"aws_sqs_queue" "q"`, `"aws_vpc" "a"`, `aws_vpc.a: declared twice`},
		{`cidr_block = `, `cidr = `, `aws_vpc.a.cidr: no such argument`},
		{`cidr_block = `, `arn = `, `aws_vpc.a.arn: it is read-only`},
		{`max_size            = 1`, ``, `aws_autoscaling_group.g.max_size: required, and missing`},
		{`max_size            = 1`, `max_size = "many"`, `aws_autoscaling_group.g.max_size: a number is required`},
		{`max_size            = 1`, `max_size = null`, `aws_autoscaling_group.g.max_size: required, and null`},
		{`["x", aws_vpc.a.id]`, `"x"`, `aws_autoscaling_group.g.vpc_zone_identifier: set of string required`},
		{"tags = {\n    \"Name\" = \"a\"\n  }", "tags {\n    Name = \"a\"\n  }", `aws_vpc.a.tags: no such block; it is an argument`},
		{"ebs {", "ebs = {", `aws_launch_template.t.block_device_mappings.ebs: no such argument; it is a block`},
		{`volume_size = "8"`, `size = 8`, `aws_launch_template.t.block_device_mappings.ebs.size: no such argument`},
		{"lifecycle {", "monitoring {\n enabled = true\n}\nmonitoring {\n enabled = false\n}\nlifecycle {", `aws_launch_template.t.monitoring: 2 blocks; there must be 0 to 1`},
		{"lifecycle {", "version {\n}\nlifecycle {", `aws_launch_template.t.version: no such block`},
		{`propagate_at_launch = true`, ``, `aws_autoscaling_group.g.tag.propagate_at_launch: required, and missing`},
		{`["x", aws_vpc.a.id]`, `[aws_vpc.b.id]`, `aws_autoscaling_group.g.vpc_zone_identifier: aws_vpc.b is not declared`},
		{`["x", aws_vpc.a.id]`, `[aws_vpc.a.ident]`, `aws_autoscaling_group.g.vpc_zone_identifier: aws_vpc.a has no attribute ident`},
		{`["x", aws_vpc.a.id]`, `[data.aws_vpc.a.id]`, `aws_autoscaling_group.g.vpc_zone_identifier: data.aws_vpc.a is not declared`},
		{`= local.vpc_id`, `= local.vpc`, `aws_autoscaling_group.g.tag.value: local.vpc is not declared`},
		{`data/policy`, `data/police`, `there is no file data/police`},
		{`file("${path.module}/data/policy")`, `"x"`, `data/policy: nothing reads it`},
		{`file("${path.module}/data/policy")`, `"${path.module}/data/police"`, `there is no file data/police`},
		{`{ "vpc" = aws_vpc.a.id }`, `{}`, `uses vpc, which is not given`},
		{`region = "eu-1"`, `continent = "eu"`, `provider.aws.continent: no such argument`},
		{`max_size            = 1`, "max_size = 1\n  depends_on = [aws_vpc.c]", `aws_autoscaling_group.g.depends_on: aws_vpc.c is not declared`},
		{`policy = file`, `policy = phile`, `aws_sqs_queue.q.policy: Call to unknown function`},
		{`8, 255)`, `8, 256)`, `aws_subnet.s.ipv6_cidr_block: Error in function call: Call to function "cidrsubnet" failed: 8 bits do not count to 256.`},
		{`8, 255)`, `129, 0)`, `a range cannot be 129 bits longer`},
		{`8, 255)`, `255)`, `aws_subnet.s.ipv6_cidr_block: Not enough function arguments`},
		{`aws_vpc.a.ipv6_cidr_block,`, `aws_vpc.b.ipv6_cidr_block,`, `aws_subnet.s.ipv6_cidr_block: aws_vpc.b is not declared`},
		{`aws_vpc.a.ipv6_cidr_block,`, `"2001:db8::/124",`, `a range cannot be 8 bits longer`},
		{`aws_vpc.a.ipv6_cidr_block,`, `"2001:db8::",`, `aws_subnet.s.ipv6_cidr_block: Error in function call`},
		{`output "length" {`, `output "length" `, `kubernetes.tf: `},
	} {
		t.Run(c.want, func(t *testing.T) {
			if !strings.Contains(valid, c.old) {
				t.Fatalf("the configuration does not hold %q", c.old)
			}
			got := Check(map[string][]byte{"kubernetes.tf": []byte(strings.Replace(valid, c.old, c.new, 1)), "data/policy": []byte("{}"), "data/script": []byte("${vpc}")})
			if !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("want %q in %q", c.want, got)
			}
		})
	}
}

func TestOtherProvidersAreCheckedForReferences(t *testing.T) {
	got := Check(map[string][]byte{"kubernetes.tf": []byte(`resource "toy_thing" "a" {
  any   = toy_thing.b.id
  count = 1
  provider = toy.x
  lifecycle {
    ignore_changes = [any]
  }
  inner {
    name = "x-${count.index}"
    next = toy_thing.a
  }
}`)})
	if d := cmp.Diff([]string{"toy_thing.a.any: toy_thing.b is not declared"}, got); d != "" {
		t.Error(d)
	}
}
