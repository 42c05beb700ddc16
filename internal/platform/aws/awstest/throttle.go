package awstest

import (
	"net/http"
	"strconv"

	"kops.local/kops/internal/test/proxy"
)

// throttledAnswer returns a throttling service's answer in the call's protocol. The formats are from the
// services' API references, "Common errors".
func (c call) throttledAnswer() proxy.Answer {
	xml := func(status int, body string) proxy.Answer {
		return newAnswer(status, "text/xml", `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+body)
	}
	switch c.protocol {
	case ec2Query:
		return xml(http.StatusServiceUnavailable, `<Response><Errors><Error><Code>RequestLimitExceeded</Code>`+
			`<Message>Request limit exceeded.</Message></Error></Errors><RequestID>throttled-by-the-test</RequestID></Response>`)
	case query, restXML:
		return xml(http.StatusBadRequest, `<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code>`+
			`<Message>Rate exceeded</Message></Error><RequestId>throttled-by-the-test</RequestId></ErrorResponse>`)
	case jsonTarget, smithyRoute:
		a := newAnswer(http.StatusBadRequest, "application/x-amz-json-1.0", `{"__type":"ThrottlingException","message":"Rate exceeded"}`)
		a.Header.Set("X-Amzn-Errortype", "ThrottlingException")
		return a
	}
	return xml(http.StatusServiceUnavailable, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message>`+
		`<RequestId>throttled-by-the-test</RequestId></Error>`)
}

func newAnswer(status int, contentType, body string) proxy.Answer {
	return proxy.Answer{Status: status, Body: []byte(body), Header: http.Header{
		"Content-Type":   {contentType},
		"Content-Length": {strconv.Itoa(len(body))},
	}}
}
