package rehearsal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// domain is the domain of all AWS services.
const domain = ".amazonaws.com"

// isServiceHost reports whether a host is an AWS service. Load balancers have their own addresses, and
// image registries are the real ones.
func isServiceHost(host string) bool {
	return strings.HasSuffix(host, domain) && !strings.HasSuffix(host, ".elb"+domain) && !strings.Contains(host, ".dkr.ecr.")
}

// services returns a proxy to the emulator, which triggers a pass after requests that change
// something. It handles requests that the emulator cannot.
func (p *play) services() http.Handler {
	proxy := &httputil.ReverseProxy{Transport: p.emulator.transport, ModifyResponse: p.rewriteResponse, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", emulatorHost, r.In.Host
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form := parameters(r)
		switch form.Get("Action") {
		case "GetConsoleOutput":
			p.console(w, form.Get("InstanceId"))
			return
		case "DescribeWarmPool":
			p.warmPool(w, form.Get("AutoScalingGroupName"))
			return
		case "DescribeScalingActivities": // not implemented in the emulator, and none fails
			w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
			_, _ = io.WriteString(w, `<DescribeScalingActivitiesResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><DescribeScalingActivitiesResult><Activities/></DescribeScalingActivitiesResult></DescribeScalingActivitiesResponse>`) // the client may be gone
			return
		case "AttachVolume": // of two volumes for the same device, the second is rejected
			p.attaching.Lock()
			defer p.attaching.Unlock()
			if device := form.Get("Device"); p.hasVolumeAt(r.Context(), form.Get("InstanceId"), device) {
				writeError(w, "InvalidParameterValue", "Invalid value '"+device+"' for unixDevice. Attachment point "+device+" is already in use")
				return
			}
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), actionKey{}, form.Get("Action"))))
		if isChange(r, form.Get("Action")) {
			p.keeper.Trigger()
		}
	})
}

// maxRequest is the maximum number of bytes of a body that is parsed.
const maxRequest = 1 << 20

// parameters returns the parameters of the query protocol, and keeps the body readable.
func parameters(r *http.Request) url.Values {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	form, perr := url.ParseQuery(string(body))
	if err != nil || perr != nil {
		return nil // the emulator reports the error
	}
	return form
}

// isChange reports whether a request may have changed the state of the play. Changes to objects in
// buckets do not count.
func isChange(r *http.Request, action string) bool {
	if action != "" {
		for _, reads := range []string{"Describe", "Get", "List", "AssumeRole"} {
			if strings.HasPrefix(action, reads) {
				return false
			}
		}
		return true
	}
	return strings.HasPrefix(r.Host, "route53.") && r.Method != http.MethodGet
}

// consoleSize is the size of the console output that AWS keeps: the last 64 KiB.
const consoleSize = 64 << 10

// console handles GetConsoleOutput.
func (p *play) console(w http.ResponseWriter, id string) {
	log, err := p.stage.Machines.Console(id)
	if err != nil || p.lastSnapshot().instances[id] == nil {
		writeError(w, "InvalidInstanceID.NotFound", "The instance ID '"+id+"' does not exist")
		return
	}
	out := struct {
		XMLName   xml.Name  `xml:"http://ec2.amazonaws.com/doc/2016-11-15/ GetConsoleOutputResponse"`
		RequestID string    `xml:"requestId"`
		Instance  string    `xml:"instanceId"`
		Time      time.Time `xml:"timestamp"`
		Output    string    `xml:"output"`
	}{RequestID: "rehearsal", Instance: id, Time: time.Now().UTC(), Output: base64.StdEncoding.EncodeToString(log[max(0, len(log)-consoleSize):])}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	_ = xml.NewEncoder(w).Encode(out) // the client may be gone
}

// hasVolumeAt reports whether an instance has a volume at a device, which the emulator does not check.
func (p *play) hasVolumeAt(ctx context.Context, instance, device string) bool {
	filter := func(name, value string) types.Filter {
		return types.Filter{Name: aws.String(name), Values: []string{value}}
	}
	out, err := p.clients.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{filter("attachment.instance-id", instance), filter("attachment.device", device)}})
	return err == nil && len(out.Volumes) > 0 // otherwise, the emulator reports the error
}

// writeError responds with an error in EC2's format.
func writeError(w http.ResponseWriter, code, message string) {
	var text bytes.Buffer
	_ = xml.EscapeText(&text, []byte(message)) // a buffer never fails
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>rehearsal</RequestID></Response>`, code, text.String()) // the client may be gone
}
