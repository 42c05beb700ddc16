//go:build unix

package main

import (
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

const interrupted = "Error: interrupted"

// scene is a command that a user interrupts at some point.
type scene struct {
	what string
	// setup are commands that must succeed first.
	setup [][]string
	args  []string
	env   map[string]string
	// blockedRequest is the pending request to the cloud when the user loses patience, and sees
	// is the text on the terminal at that time.
	blockedRequest, expected string
	// hasLease means that the command has the lease, so that it reports that it stops.
	hasLease bool
	// text is on the terminal at the end.
	text        string
	clusterName string // the cluster, if it is another one
}

// checkComplete checks that exactly the commands marked in the list of all commands have a scene.
func checkComplete(t *testing.T, all []scene) {
	t.Helper()
	data, err := os.ReadFile("../../internal/cli/testdata/interrupted.tsv")
	if err != nil {
		t.Fatal(err)
	}
	needs := map[string]bool{}
	for text := range strings.Lines(string(data)) {
		command, how, _ := strings.Cut(strings.TrimSpace(text), "\t")
		needs[command] = how == "scene"
	}
	has := map[string]bool{}
	for _, s := range all {
		text, command := "kops "+strings.Join(s.args, " ")+" ", ""
		for c := range needs {
			if strings.HasPrefix(text, c+" ") && len(c) > len(command) {
				command = c
			}
		}
		has[command] = true
		if !needs[command] {
			t.Errorf("the scene %s is of %q, whose line in interrupted.tsv says that it needs none", s.what, command)
		}
	}
	for c, need := range needs {
		if need && !has[c] {
			t.Errorf("%s has no scene, and interrupted.tsv says that it has one", c)
		}
	}
}

// scenes are ordered: each prepares the next one.
func scenes(a *account) []scene {
	all := slices.Concat(cloudScenes(), machineScenes(a), rotationScenes(a), keyScenes(a), readingScenes(), etcdScenes(), storeScenes(a))
	return append(all, scene{what: "delete, deleting", args: []string{"delete", "cluster", cluster, "--yes"}, blockedRequest: "autoscaling.DeleteAutoScalingGroup", expected: "deleting aws_autoscal", hasLease: true, text: "interrupted"})
}

func cloudScenes() []scene {
	sleeper := map[string]string{"EDITOR": `true; exec sh -c "echo an editor; exec sleep 100"`}
	return []scene{
		{what: "preview, looking up", args: []string{"update", "cluster", cluster}, blockedRequest: "ec2.DescribeImages", expected: "looking up the spec's values …", text: interrupted},
		{what: "preview, observing", args: []string{"update", "cluster", cluster}, blockedRequest: "ec2.DescribeSubnets", expected: "reading existing resources …", text: interrupted},
		{what: "update, looking up", args: []string{"update", "cluster", cluster, "--yes"}, blockedRequest: "ec2.DescribeImages", expected: "looking up the spec's values …", hasLease: true, text: interrupted},
		{what: "update, observing", args: []string{"update", "cluster", cluster, "--yes"}, blockedRequest: "ec2.DescribeSubnets", hasLease: true, text: interrupted},
		{what: "update, applying", args: []string{"update", "cluster", another, "--yes"}, blockedRequest: "ec2.CreateVpc", expected: "creating aws_vpc/", hasLease: true, text: "interrupted", clusterName: another},
		{what: "create --yes, observing", args: []string{"create", "cluster", "c.example.com", "--cloud", "aws", "--zones", "us-east-1a", "--dns", "none", "--networking", "cni", "--image", image,
			"--set", "spec.configBase=s3://files/c.example.com", "--yes"}, blockedRequest: "ec2.DescribeSubnets", hasLease: true, text: interrupted, clusterName: "c.example.com"},
		{what: "update, generating keys", args: []string{"update", "cluster", "c.example.com", "--yes"}, env: map[string]string{"KOPS_RSA_PRIVATE_KEY_SIZE": "16384"},
			expected: "looking up the spec's values …", hasLease: true, text: interrupted, clusterName: "c.example.com"},
		{what: "reconcile, observing", args: []string{"reconcile", "cluster", cluster, "--yes"}, blockedRequest: "ec2.DescribeSubnets", hasLease: true, text: "interrupted"},
		{what: "roll, preview", args: []string{"rolling-update", "cluster", cluster, "--cloudonly"}, blockedRequest: "ec2.DescribeInstances", text: interrupted},
		{what: "roll, looking", args: []string{"rolling-update", "cluster", cluster, "--cloudonly", "--force", "--yes"}, blockedRequest: "autoscaling.DescribeAutoScalingGroups", hasLease: true, text: interrupted},
		{what: "validate --wait", args: []string{"validate", "cluster", cluster, "--wait", "10m", "--api-server", "https://127.0.0.1:1"}, expected: "waiting for ", text: interrupted},
		{what: "delete, preview", args: []string{"delete", "cluster", cluster}, blockedRequest: "ec2.DescribeSubnets", text: interrupted},
		{what: "delete, observing", args: []string{"delete", "cluster", cluster, "--yes"}, blockedRequest: "ec2.DescribeSubnets", hasLease: true, text: interrupted},
		{what: "delete a group, asked", args: []string{"delete", "instancegroup", "nodes-us-east-1a", "--name", cluster}, expected: "(y/N) ", hasLease: true, text: interrupted},
		{what: "delete a secret, asked", args: []string{"delete", "secret", "dockerconfig", "--name", cluster}, expected: "(y/N) ", text: interrupted},
		{what: "delete SSH keys, asked", args: []string{"delete", "sshpublickey", cluster}, expected: "(y/N) ", text: interrupted},
		{what: "edit", args: []string{"edit", "cluster", cluster}, env: sleeper, expected: "an editor", text: "run the editor"},
		{what: "edit a group", args: []string{"edit", "instancegroup", "nodes-us-east-1a", "--name", cluster}, env: sleeper, expected: "an editor", text: "run the editor"},
	}
}

// machineScenes replace or change machines.
func machineScenes(a *account) []scene {
	var machines []struct{ ID string }
	if err := json.Unmarshal([]byte(a.Must("get", "instances", "--name", cluster, "-o", "json").Out), &machines); err != nil || len(machines) == 0 {
		a.Fatal(machines, err)
	}
	one := splitArgs("delete instance " + machines[0].ID + " --cloudonly --name " + cluster)
	abort := splitArgs("rolling-update abort " + cluster)
	changed := [][]string{abort, splitArgs("edit cluster --set spec.kubelet.maxPods=55 " + cluster), splitArgs("update cluster --yes " + cluster)} // in place
	return []scene{
		{what: "delete a machine, preview", args: one, blockedRequest: "ec2.DescribeInstances", text: interrupted},
		{what: "delete a machine, looking", args: withArgs(one, "--yes"), blockedRequest: "autoscaling.DescribeAutoScalingGroups", hasLease: true, text: interrupted},
		{what: "delete a machine, deleting", args: withArgs(one, "--yes"), expected: "must stay ready", hasLease: true, text: interrupted},
		{what: "roll, rolling", setup: [][]string{abort}, args: splitArgs("rolling-update cluster --cloudonly --force --yes " + cluster), expected: "must stay ready", hasLease: true, text: interrupted},
		{what: "roll, asking the API", setup: changed, args: splitArgs("rolling-update cluster --yes --api-server https://" + a.silentListener.Addr().String() + " " + cluster), blockedRequest: silent, hasLease: true, text: interrupted},
	}
}

// rotationScenes continue one rotation, from step to step.
func rotationScenes(a *account) []scene {
	rotate := splitArgs("rotate all " + cluster + " --yes --api-server https://" + a.silentListener.Addr().String())
	return []scene{
		{what: "rotate, preview", args: splitArgs("rotate all " + cluster), blockedRequest: "s3.ListObjectsV2", text: interrupted},
		{what: "rotate, making keys", args: rotate, blockedRequest: "s3.PutObject", expected: "step 1 of ", hasLease: true, text: interrupted},
		{what: "rotate, updating", args: rotate, blockedRequest: "ec2.DescribeSubnets", expected: "step 2 of ", hasLease: true, text: interrupted},
		{what: "rotate, rolling", args: rotate, blockedRequest: silent, expected: "step 2 of ", text: interrupted},
		{what: "rotate encryption, preview", args: splitArgs("rotate encryption " + cluster), blockedRequest: "s3.GetObject", text: interrupted},
	}
}

func keyScenes(a *account) []scene {
	config := "--filename " + a.File("encryption.yaml", encryption) + " --name " + cluster
	docker := "--filename " + a.File("docker.json", "{}") + " --force --name " + cluster
	password := "--filename " + a.File("password", "3 rfc4106(gcm(aes)) 00 128") + " --name " + cluster
	of := " --name " + cluster
	return []scene{
		{what: "create a key, reading", args: splitArgs("create keypair all" + of), blockedRequest: "s3.ListObjectsV2", hasLease: true, text: interrupted},
		{what: "create a key, writing", args: splitArgs("create keypair service-account" + of), blockedRequest: "s3.PutObject", hasLease: true, text: interrupted},
		{what: "promote a key", args: splitArgs("promote keypair all" + of), blockedRequest: "s3.ListObjectsV2", hasLease: true, text: interrupted},
		{what: "distrust a key", args: splitArgs("distrust keypair all" + of), blockedRequest: "s3.ListObjectsV2", hasLease: true, text: interrupted},
		{what: "trust a key", args: splitArgs("trust keypair service-account 1" + of), blockedRequest: "s3.GetObject", hasLease: true, text: interrupted},
		{what: "create the encryption configuration", args: splitArgs("create secret encryptionconfig " + config), blockedRequest: "s3.PutObject", hasLease: true, text: interrupted},
		{what: "create the credentials of images", args: splitArgs("create secret dockerconfig " + docker), blockedRequest: "s3.PutObject", hasLease: true, text: interrupted},
		{what: "create Cilium's keys", args: splitArgs("create secret ciliumpassword " + password), blockedRequest: "s3.PutObject", hasLease: true, text: interrupted},
		{what: "delete a secret", args: splitArgs("delete secret dockerconfig --yes" + of), blockedRequest: "s3.DeleteObject", hasLease: true, text: interrupted},
		{what: "export kubeconfig", args: splitArgs("export kubeconfig --admin" + of), blockedRequest: "s3.GetObject", text: interrupted},
	}
}

// readingScenes read the standard input, which is the terminal.
func readingScenes() []scene {
	var all []scene
	for _, line := range []string{"create -f -", "replace -f -", "delete -f - --yes", "create secret dockerconfig -f - --name " + cluster,
		"create sshpublickey -i - --name " + cluster, "toolbox template --template -"} {
		all = append(all, scene{what: line, args: splitArgs(line), expected: "Reading from the terminal", text: interrupted})
	}
	return all
}

func etcdScenes() []scene {
	return []scene{
		{what: "etcd backup", args: splitArgs("etcd backup --yes " + cluster), blockedRequest: "s3.PutObject", text: interrupted},
		{what: "etcd restore", args: splitArgs("etcd restore --yes " + cluster + " latest"), blockedRequest: "s3.ListObjectsV2", text: interrupted},
		{what: "etcd drill", args: splitArgs("etcd drill " + cluster), blockedRequest: "s3.ListObjectsV2", text: interrupted},
		{what: "etcd defrag, asking", args: splitArgs("etcd defrag --yes " + cluster), blockedRequest: "s3.PutObject", text: interrupted},
		{what: "etcd defrag, waiting", args: splitArgs("etcd defrag --yes " + cluster), expected: "asked etcd-manager", text: interrupted},
		{what: "etcd alarm disarm, asking", args: splitArgs("etcd alarm disarm --yes " + cluster), blockedRequest: "s3.GetObject", text: interrupted},
		{what: "dump", args: splitArgs("toolbox dump --dir dump " + cluster), blockedRequest: "ec2.DescribeInstances", text: interrupted},
	}
}

// storeScenes wait for a state store, or for a machine of the user.
func storeScenes(a *account) []scene {
	group := strings.Replace(a.withEnv(remote()).Must("get", "instancegroup", "nodes-us-east-1a", "--name", distant, "-o", "yaml").Out, "name: nodes-us-east-1a", "name: another", 1)
	file := a.File("group.yaml", group)
	all := a.File("all.yaml", a.withEnv(remote()).Must("get", "all", "--name", distant, "-o", "yaml").Out)
	more := a.File("more.yaml", strings.Replace(a.withEnv(remote()).Must("get", "instancegroup", "nodes-us-east-1a", "--name", distant, "-o", "yaml").Out, "maxSize: 1", "maxSize: 2", 1))
	of := " --name " + distant
	host, port, _ := strings.Cut(a.silentListener.Addr().String(), ":")
	scenes := []scene{
		{what: "create, writing", args: withArgs(a.createArgs("another." + distant)), blockedRequest: "s3.PutObject"},
		{what: "create -f", args: splitArgs("create -f " + file), blockedRequest: "s3.PutObject"},
		{what: "create a group", args: splitArgs("create instancegroup more --edit=false --subnet us-east-1a" + of), blockedRequest: "s3.PutObject"},
		{what: "replace", args: splitArgs("replace -f " + more), blockedRequest: "s3.PutObject"},
		{what: "edit --set", args: splitArgs("edit cluster --set spec.kubelet.maxPods=77 " + distant), blockedRequest: "s3.PutObject"},
		{what: "upgrade", args: splitArgs("upgrade cluster --yes " + distant), blockedRequest: "s3.PutObject"},
		{what: "delete -f", args: splitArgs("delete -f " + all + " --yes"), blockedRequest: "ec2.DescribeSubnets", hasLease: true},
		{what: "pause", args: splitArgs("rolling-update pause " + distant), blockedRequest: "s3.GetObject"},
		{what: "resume", args: splitArgs("rolling-update resume " + distant), blockedRequest: "s3.GetObject"},
		{what: "abort", args: splitArgs("rolling-update abort " + distant), blockedRequest: "s3.GetObject"},
		{what: "break the lease", args: splitArgs("toolbox lock break --yes " + distant), blockedRequest: "s3.GetObject"},
		{what: "bundle pull", args: splitArgs("bundle pull s3://state/bundle --dir " + a.Home + "/bundle"), blockedRequest: "s3.GetObject"},
	}
	for i := range scenes {
		s := &scenes[i]
		s.env, s.clusterName, s.text = remote(), distant, interrupted
	}
	return append(scenes, scene{what: "enroll", args: splitArgs("toolbox enroll --cluster " + own + " --instance-group nodes-main --host " + host + " --ssh-port " + port),
		env: map[string]string{"KOPS_SSH_KEY": a.privateKey()}, blockedRequest: silent, text: interrupted, clusterName: own})
}

// privateKey writes an SSH private key, and returns its file.
func (a *account) privateKey() string {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		a.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		a.Fatal(err)
	}
	return a.File("id_ed25519", string(pem.EncodeToMemory(block)))
}

// distant is a cluster whose state store is a bucket, and own one that consists of the user's machines.
const distant, own = "d.example.com", "own.example.com"

// silent holds a connection to a server that never answers.
const silent = "a connection"

// remote is the environment of the user of distant.
func remote() map[string]string { return map[string]string{"KOPS_STATE_STORE": "s3://state"} }

const (
	encryption = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox: {keys: [{name: key1, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}
  - identity: {}
`
)

func splitArgs(text string) []string { return strings.Fields(text) }

func withArgs(args []string, more ...string) []string { return append(slices.Clone(args), more...) }
