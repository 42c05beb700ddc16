package terraform

import (
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

// The toy kinds have the names of real types, so that the result can be checked against the
// provider's schema.

type network struct {
	CIDR string            `res:"replace" tf:"cidr_block"`
	DNS  *bool             `tf:"enable_dns_support"`
	IPv6 bool              `tf:"assign_generated_ipv6_cidr_block,zero"`
	Tags map[string]string `tf:"tags"`

	ID  string `res:"out,id" out:"id"`
	ARN string `res:"out,id" out:"arn"`
}

type subnet struct {
	Network resource.Value `res:"replace" tf:"vpc_id"`
	CIDR    resource.Value `res:"replace" tf:"cidr_block"`
	Hidden  string

	ID string `res:"out,id" out:"id"`
}

type route struct {
	Table       resource.Value `tf:"route_table_id"`
	Destination string         `tf:"destination_cidr_block"`
}

type table struct {
	Network resource.Value            `tf:"vpc_id"`
	Tags    map[string]resource.Value `tf:"tags"`
	ID      string                    `res:"out,id" out:"id"`
}

type disk struct {
	Size      int   `tf:"volume_size"`
	Encrypted *bool `tf:"encrypted"`
}

type device struct {
	Name    string `tf:"device_name"`
	Disk    *disk  `tf:"ebs,block"`
	Virtual string `tf:"virtual_name"`
}

type nic struct {
	IPv6   int              `tf:"ipv6_address_count,zero"`
	Groups []resource.Value `tf:"security_groups"`
}

type template struct {
	Name     string           `tf:"name"`
	Devices  []device         `tf:"block_device_mappings,block"`
	NIC      nic              `tf:"network_interfaces,block"`
	Credit   struct{ X int }  `tf:"credit_specification,block"`
	UserData resource.Content `tf:"user_data,file64"`

	ID     string `res:"out,id" out:"id"`
	Latest int    `res:"out,volatile" out:"version" tf:"latest_version"`
}

type group struct {
	Name     string           `tf:"name"`
	Min      int              `tf:"min_size,zero"`
	Max      *int             `tf:"max_size"`
	Subnets  []resource.Value `tf:"vpc_zone_identifier"`
	Metrics  []string         `tf:"enabled_metrics,zero"`
	Template launch           `tf:"launch_template,block"`

	ID string `res:"out,id" out:"id"`
}

type launch struct {
	ID      resource.Value `tf:"id"`
	Version resource.Value `tf:"version"`
}

type role struct {
	Name   string           `tf:"name"`
	Policy resource.Content `tf:"assume_role_policy,file=policy"`
	Tags   map[string]string

	ARN  string `res:"out,id" out:"arn"`
	Unit string `res:"out,id" out:"name"`
}

type queue struct {
	Name   string           `tf:"name"`
	Policy resource.Content `res:",json" tf:"policy,file"`
	ARN    string           `res:"out,id" out:"arn"`
}

type object3 struct {
	Bucket   string           `tf:"bucket"`
	Key      string           `tf:"key"`
	Content  resource.Content `tf:"content,file"`
	Provider string           `tf:"provider,raw"`
}

type machine struct {
	Count    int                         `tf:"count"`
	Name     string                      `tf:"name,raw"`
	Metadata metadata                    `tf:"metadata"`
	Key      resource.Content            `tf:"public_key"`
	Keep     keep                        `res:"writeonly" tf:"lifecycle,block"`
	Ports    []port                      `tf:"ports"`
	Disks    []disk                      `tf:"disks,block"`
	Policy   resource.Content            `tf:"policy,file"`
	Texts    map[string]resource.Content `tf:"texts,lines"`
	Note     string                      `tf:"note,lines"`
}

type port struct {
	Number int    `tf:"number"`
	Proto  string `tf:"proto"`
}

type keep struct {
	Ignore []string `tf:"ignore_changes,raw"`
}

type metadata struct {
	Cluster  string           `tf:"cluster-name"`
	UserData resource.Content `tf:"user-data,file"`
}

type keyset struct {
	Key resource.Content `tf:"key"`
	ID  string           `res:"out,id" out:"id"`
}

func kind[T any](name string) *resource.Kind[T, any] {
	return &resource.Kind[T, any]{Name: name, Key: func(*T) string { return "" }}
}

var (
	networks  = kind[network]("aws_vpc")
	subnets   = kind[subnet]("aws_subnet")
	tables    = kind[table]("aws_route_table")
	routes    = kind[route]("aws_route")
	templates = &resource.Kind[template, any]{Name: "aws_launch_template", CreateFirst: true, Key: func(*template) string { return "" }}
	groups    = kind[group]("aws_autoscaling_group")
	roles     = kind[role]("aws_iam_role")
	queues    = kind[queue]("aws_sqs_queue")
	objects   = kind[object3]("aws_s3_object")
	machines  = &resource.Kind[machine, any]{Name: "toy_machine", CreateFirst: true, Key: func(*machine) string { return "" }}
	keysets   = &resource.Kind[keyset, any]{Name: "keyset", Direct: true, Key: func(*keyset) string { return "" }}
)

func graphOf(t *testing.T, ns ...resource.Node) *graph.Graph {
	t.Helper()
	g := &graph.Graph{}
	if err := g.Add(ns...); err != nil {
		t.Fatal(err)
	}
	return g
}
