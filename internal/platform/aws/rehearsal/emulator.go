package rehearsal

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/spec/versions"
)

// program is moto's server, which plays most APIs of AWS.
const program = "moto_server"

// running is what the emulator says when it listens.
const running = "Running on "

// emulatorHost and endpoint stand for the emulator in requests, which go to its socket.
const (
	emulatorHost = "emulator"
	endpoint     = "http://" + emulatorHost
)

// emulator is a running one. It listens at a socket that only its user reaches: who may ask
// it to run instances is root of this host.
type emulator struct {
	*rehearsal.Program
	transport *http.Transport
}

// Check reports what this host lacks to play AWS.
func Check() error {
	_, err := find()
	return err
}

// find returns the path of the emulator's program.
func find() (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("AWS is played by %s, and this host has none: %w", program, err), "run: pip install 'moto[server]'")
	}
	return path, nil
}

func startEmulator(ctx context.Context, o rehearsal.Options) (*emulator, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	images, socket := filepath.Join(o.Dir, "images.json"), filepath.Join(o.Dir, "emulator.sock")
	text, err := json.Marshal(imagesOf(versions.Stable, versions.Alpha))
	if err == nil {
		err = os.WriteFile(images, text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write the machine images of the emulator: %w", err)
	}
	var words []string
	for _, name := range ofAccount() {
		words = append(words, "--unset="+name)
	}
	// Without its assertions the emulator also starts instances of later versions of a launch
	// template: it asserts a type of their user data that only the first version's has.
	words = append(words, "MOTO_AMIS_PATH="+images, "PYTHONUNBUFFERED=1", "PYTHONOPTIMIZE=1", path, "-H", "unix://"+socket, "-p", "0")
	e := &emulator{transport: &http.Transport{MaxIdleConnsPerHost: 64, // it ends when it is closed
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	e.Program, err = rehearsal.StartProgram(ctx, program, exec.Command("env", words...), running, o.Log)
	return e, err
}

// machineImage is one as the emulator reads it from a file.
type machineImage struct {
	ID           string `json:"ami_id"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	Owner        string `json:"owner_id"`
	Location     string `json:"image_location"`
	Architecture string `json:"architecture"`
	State        string `json:"state"`
	Type         string `json:"image_type"`
	RootType     string `json:"root_device_type"`
	RootName     string `json:"root_device_name"`
	Kind         string `json:"virtualization_type"`
	Hypervisor   string `json:"hypervisor"`
	Network      string `json:"sriov"`
	Public       bool   `json:"public"`
	Platform     any    `json:"platform"`
}

// imagesOf returns the machine images that the channels of versions recommend. Despite their
// names, machines of this host boot from the host's own image.
func imagesOf(channels ...string) []machineImage {
	out := []machineImage{}
	known := map[string]bool{}
	for _, c := range channels {
		v, ok := versions.Embedded(c)
		if !ok {
			continue
		}
		for _, full := range v.Images(api.CloudAWS) {
			if known[full] {
				continue
			}
			known[full] = true
			owner, name, _ := strings.Cut(full, "/")
			arch := "x86_64"
			if strings.Contains(name, "arm64") {
				arch = "arm64"
			}
			sum := fnv.New64a()
			_, _ = sum.Write([]byte(full)) // a hash takes all
			out = append(out, machineImage{ID: fmt.Sprintf("ami-%017x", sum.Sum64()&0xfffffffffffffff), Name: name, Description: name, Owner: owner, Location: full, Architecture: arch,
				State: "available", Type: "machine", RootType: "ebs", RootName: "/dev/sda1", Kind: "hvm", Hypervisor: "xen", Network: "simple", Public: true})
		}
	}
	return out
}
