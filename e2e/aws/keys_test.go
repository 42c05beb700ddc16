package aws

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"kops.local/kops/internal/contract/storekeys"

	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	storeopen "kops.local/kops/internal/store/open"
	"kops.local/kops/internal/test/cloudsuite"
)

// place is the name of the cluster's parameter.
const place = "/kops/" + name + "/s3-keys"

// useOtherServer moves the user's state store to an S3 server that is not AWS', and returns it.
func useOtherServer(w *cloudsuite.World) store.Store {
	w.Helper()
	other := awstest.Versity(w)
	other.Bucket(w, bucket)
	w.Env["S3_ENDPOINT"], w.Env["S3_REGION"], w.Env["S3_ACCESS_KEY_ID"], w.Env["S3_SECRET_ACCESS_KEY"] = other.URL, other.Region, other.AccessKey, other.SecretKey
	return openBucket(w, other)
}

// parameter returns the value of the cluster's parameter; "" if there is none.
func parameter(w *cloudsuite.World) string {
	w.Helper()
	out, err := ssm.NewFromConfig(of(w).AWS()).GetParametersByPath(w.Context(), &ssm.GetParametersByPathInput{Path: aws.String("/"), Recursive: aws.Bool(true), WithDecryption: aws.Bool(true)})
	if err != nil {
		w.Fatal(err)
	}
	if len(out.Parameters) == 0 {
		return ""
	}
	if p := out.Parameters[0]; len(out.Parameters) != 1 || *p.Name != place || p.Type != "SecureString" {
		w.Fatalf("there are other parameters: %+v", out.Parameters)
	}
	return *out.Parameters[0].Value
}

func storeKeyPair(w *cloudsuite.World) storekeys.Pair {
	return storekeys.Pair{ID: w.Env["S3_ACCESS_KEY_ID"], Secret: w.Env["S3_SECRET_ACCESS_KEY"]}
}

// secrets are texts that must not appear anywhere else.
func secrets(w *cloudsuite.World) []string {
	return []string{storeKeyPair(w).Secret, storeKeyPair(w).Encode()}
}

// placeKeys: keys of another server reach control planes alone.
func placeKeys(w *cloudsuite.World) {
	state := useOtherServer(w)
	w.Small()
	for _, args := range [][]string{{}, {"-o", "json"}, {"--save-plan", filepath.Join(w.Home, "plan")}} {
		r := w.Must(append([]string{"update", "cluster", name}, args...)...)
		checkNoSecrets(w, strings.Join(args, " "), r.Out+r.Err)
	}
	plan, err := os.ReadFile(filepath.Join(w.Home, "plan"))
	if err != nil || len(plan) == 0 {
		w.Fatal(err)
	}
	checkNoSecrets(w, "a saved plan", string(plan))
	r := w.Must("update", "cluster", name, "--yes")
	checkNoSecrets(w, "the update", r.Out+r.Err)
	if got := parameter(w); got != storeKeyPair(w).Encode() {
		w.Errorf("control planes find %q", got)
	}
	control := userData(w, "control-plane-us-east-1a")
	if !strings.Contains(control, "\nexport S3_KEYS='aws:"+place+"'\n") {
		w.Error("control planes are not told where the keys are")
	}
	checkNoSecrets(w, "the user data of control planes", control)
	if nodes := userData(w, "nodes-us-east-1a"); strings.Contains(nodes, "S3_") {
		w.Error("the user data of nodes name the store")
	}
	for o, err := range state.List(w.Context(), "") {
		if err != nil {
			w.Fatal(err)
		}
		text, _, err := state.Get(w.Context(), o.Key)
		if err != nil {
			w.Fatal(err)
		}
		checkNoSecrets(w, o.Key, string(text))
		if strings.HasSuffix(o.Key, "/kops-channels.yaml") || strings.Contains(o.Key, "/manifests/etcd/") || strings.Contains(o.Key, "addons/kops-controller") {
			for _, v := range []string{"name: S3_KEYS", "name: S3_ENDPOINT", "name: AWS_REGION"} {
				if !strings.Contains(string(text), v) {
					w.Errorf("%s lacks %s", o.Key, v)
				}
			}
		}
	}
	for role, want := range map[string]bool{"masters": true, "nodes": false} {
		if got := strings.Contains(policies(w, role+"."+name), "parameter"+place); got != want {
			w.Errorf("%s may read the keys: %v", role, got)
		}
	}
	runDownload(w, control)
	writeAsControlPlane(w, state)

	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "No changes") {
		w.Errorf("something is left to do:\n%s", r.Out)
	}
	_, err = ssm.NewFromConfig(of(w).AWS()).PutParameter(w.Context(), &ssm.PutParameterInput{Name: aws.String(place), Value: aws.String("b2xkOmtleXM="), Overwrite: aws.Bool(true)})
	if err != nil {
		w.Fatal(err)
	}
	r = w.Must("update", "cluster", name, "--yes")
	checkNoSecrets(w, "the update with other keys", r.Out+r.Err)
	if got := parameter(w); got != storeKeyPair(w).Encode() || strings.Contains(r.Out, "b2xkOmtleXM=") {
		w.Errorf("after the keys were changed control planes find %q:\n%s", got, r.Out)
	}
	w.Must("delete", "cluster", name, "--yes")
	if got := parameter(w); got != "" {
		w.Errorf("a deletion leaves %q", got)
	}
}

// renderWithKeys: Terraform knows no keys of another server.
func renderWithKeys(w *cloudsuite.World) {
	useOtherServer(w)
	w.Small()
	out := filepath.Join(w.Home, "tf")
	w.Must("update", "cluster", name, "--target", "terraform", "--out", out)
	files := 0
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		checkNoSecrets(w, path, string(text))
		files++
		return err
	})
	if err != nil || files < 5 {
		w.Fatal(files, err)
	}
	if got := parameter(w); got != storeKeyPair(w).Encode() {
		w.Errorf("before Terraform makes them, control planes would find %q", got)
	}
	facts := filepath.Join(w.Home, "facts.yaml")
	if r := w.Must("update", "cluster", name, "--target", "terraform", "--out", out, "--record-facts", facts); strings.Contains(r.Err, "aws_store_keys") { // again
		w.Errorf("what is written is warned of:\n%s", r.Err)
	}
	if r := w.Must("update", "cluster", name, "--target", "terraform", "--out", out, "--facts", facts); !strings.Contains(r.Err, "aws_store_keys/s3-keys."+name+" is never part of the Terraform configuration, and is not written") {
		w.Errorf("the output does not say what is not written:\n%s", r.Err)
	}
}

// checkNoSecrets fails if a text contains a secret.
func checkNoSecrets(w *cloudsuite.World, what, text string) {
	w.Helper()
	for _, s := range secrets(w) {
		if strings.Contains(text, s) {
			w.Errorf("%s holds the keys", what)
		}
	}
}

// policies returns the inline policies of a role.
func policies(w *cloudsuite.World, role string) string {
	w.Helper()
	client := iam.NewFromConfig(of(w).AWS())
	names, err := client.ListRolePolicies(w.Context(), &iam.ListRolePoliciesInput{RoleName: &role})
	if err != nil {
		w.Fatal(err)
	}
	var b strings.Builder
	for _, n := range names.PolicyNames {
		p, err := client.GetRolePolicy(w.Context(), &iam.GetRolePolicyInput{RoleName: &role, PolicyName: &n})
		if err != nil {
			w.Fatal(err)
		}
		text, err := url.QueryUnescape(*p.PolicyDocument)
		if err != nil {
			w.Fatal(err)
		}
		b.WriteString(text)
	}
	return b.String()
}

// startMetadata starts the metadata service of a machine with a role.
func startMetadata(w *cloudsuite.World) string {
	return ec2test.Serve(w, ec2test.Role(w, "masters."+name, awsquery.Credentials{ID: of(w).AccessKey, Secret: of(w).SecretKey, Token: "session"}))
}

// runDownload runs the part of a boot script that downloads a file.
func runDownload(w *cloudsuite.World, script string) {
	w.Helper()
	_, functions, ok := strings.Cut(script, "\nfailed() {")
	functions, rest, _ := strings.Cut(functions, "\nfetch() {")
	fetch, _, found := strings.Cut(rest, "\n}\n")
	ok = ok && found
	if _, err := exec.LookPath("curl"); err != nil || !ok {
		w.Fatalf("the boot script has no function, or this machine no curl: %v", err)
	}
	text := "set -o errexit -o nounset -o pipefail\n"
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "export ") {
			text += line
		}
	}
	text += "failed() {" + functions + "\nfetch() {" + fetch + "\n}\nfetch \"$1\" \"$2\"\n"
	text = strings.NewReplacer("http://169.254.169.254", startMetadata(w), "https://ssm.${AWS_REGION}.amazonaws.com", of(w).URL).Replace(text)
	file := filepath.Join(w.TempDir(), "config")
	cmd := exec.Command("bash", "-c", text, "boot", file, "s3://"+bucket+"/"+name+"/config")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("the boot script does not fetch: %v\n%s", err, out)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Contains(got, []byte("kind: Cluster")) {
		w.Errorf("the boot script has fetched %q, %v", got, err)
	}
	cmd = exec.Command("bash", "-c", strings.Replace(text, place, place+"-gone", 1), "boot", file, "s3://"+bucket+"/"+name+"/config")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "store credentials: s3://"+bucket+"/"+name+"/config: aws:"+place+"-gone gave none: ParameterNotFound") {
		w.Errorf("without keys the boot script says %v\n%s", err, out)
	}
}

// writeAsControlPlane writes to the store as the programs of control planes do, which are configured
// with the place of the keys.
func writeAsControlPlane(w *cloudsuite.World, state store.Store) {
	w.Helper()
	asked := 0
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked++
		u, err := url.Parse(of(w).URL)
		if err != nil {
			w.Error(err)
			return
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = u.Scheme, u.Host, ""
		res, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.Error(err)
			return
		}
		defer res.Body.Close() // only read
		rw.WriteHeader(res.StatusCode)
		_, _ = io.Copy(rw, res.Body) // the test would fail
	}))
	defer front.Close()
	env := map[string]string{"S3_ENDPOINT": w.Env["S3_ENDPOINT"], "S3_REGION": w.Env["S3_REGION"], "S3_KEYS": "aws:" + place, "AWS_REGION": region,
		"AWS_ENDPOINT_URL": front.URL, "AWS_EC2_METADATA_SERVICE_ENDPOINT": startMetadata(w)}
	stores := func() store.Backends {
		get := func(k string) string { return env[k] }
		return onmachine.LocalStores(nodes.All(), storeopen.Options{Env: get, HTTP: &http.Client{}})
	}
	s, err := stores().Open(w.Context(), "s3://"+bucket+"/"+name)
	if err != nil {
		w.Fatal(err)
	}
	for range 3 {
		if _, err := s.Put(w.Context(), "backups/etcd/main/a", []byte("b"), store.PutOptions{}); err != nil {
			w.Fatal(err)
		}
	}
	if err := state.Delete(w.Context(), name+"/backups/etcd/main/a", store.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	if asked != 1 {
		w.Errorf("the keys were read %d times for three writes", asked)
	}
	env["S3_KEYS"] = "aws:" + place + "-gone"
	if s, err = stores().Open(w.Context(), "s3://"+bucket); err != nil {
		w.Fatal(err)
	}
	if _, _, err = s.Get(w.Context(), name+"/config"); err == nil || !strings.Contains(err.Error(), place+"-gone not found") {
		w.Errorf("without keys a read ends in %v", err)
	}
}
