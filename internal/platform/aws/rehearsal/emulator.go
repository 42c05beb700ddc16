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

// program is moto's server, which emulates most AWS APIs.
const program = "moto_server"

// running is the emulator's output when it is listening.
const running = "Running on "

// emulatorHost and endpoint are the host and URL of the emulator in
// requests, which are sent to its socket.
const (
	emulatorHost = "emulator"
	endpoint     = "http://" + emulatorHost
)

// emulator is a running emulator. It listens on a socket that only its user can access: anyone who
// can make it run instances has root access to this host.
type emulator struct {
	*rehearsal.Program
	transport *http.Transport
}

// Check returns an error if this host is missing a program that emulating AWS needs.
func Check() error {
	_, err := findEmulator()
	return err
}

// findEmulator returns the path of the emulator's program.
func findEmulator() (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("the rehearsal emulates AWS with %s, which this host does not have: %w", program, err), "run: pip install 'moto[server]'")
	}
	return path, nil
}

func startEmulator(ctx context.Context, o rehearsal.Options) (*emulator, error) {
	path, err := findEmulator()
	if err != nil {
		return nil, err
	}
	images, socket := filepath.Join(o.Dir, "images.json"), filepath.Join(o.Dir, "emulator.sock")
	text, err := json.Marshal(channelImages(versions.Stable, versions.Alpha))
	if err == nil {
		err = os.WriteFile(images, text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write the machine images of the emulator: %w", err)
	}
	var words []string
	for _, name := range accountVariables() {
		words = append(words, "--unset="+name)
	}
	// Without its assertions, the emulator also starts instances of later versions of a launch
	// template: it asserts a type of their user data that only the first version's has.
	words = append(words, "MOTO_AMIS_PATH="+images, "PYTHONUNBUFFERED=1", "PYTHONOPTIMIZE=1", path, "-H", "unix://"+socket, "-p", "0")
	e := &emulator{transport: &http.Transport{MaxIdleConnsPerHost: 64, // it is stopped by Close
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	e.Program, err = rehearsal.StartProgram(ctx, program, exec.Command("env", words...), running, o.Log)
	return e, err
}

// machineImage is a machine image in the file that the emulator reads.
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

// channelImages returns the machine images that the version channels recommend. Regardless of the image,
// machines on this host boot from the host's own image.
func channelImages(channels ...string) []machineImage {
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
			_, _ = sum.Write([]byte(full)) // Write on a hash never fails
			out = append(out, machineImage{ID: fmt.Sprintf("ami-%017x", sum.Sum64()&0xfffffffffffffff), Name: name, Description: name, Owner: owner, Location: full, Architecture: arch,
				State: "available", Type: "machine", RootType: "ebs", RootName: "/dev/sda1", Kind: "hvm", Hypervisor: "xen", Network: "simple", Public: true})
		}
	}
	return out
}
