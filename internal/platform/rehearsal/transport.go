package rehearsal

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
)

// HandlerTransport sends requests to a handler in this process, such as an emulator.
type HandlerTransport struct{ http.Handler }

// RoundTrip implements http.RoundTripper. A handler that aborts breaks the connection.
func (t HandlerTransport) RoundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		switch why := recover(); why {
		case nil:
		case http.ErrAbortHandler:
			res, err = nil, io.ErrUnexpectedEOF
		default:
			panic(why)
		}
	}()
	in := r.Clone(r.Context())
	in.Host = cmp.Or(in.Host, in.URL.Host)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	t.ServeHTTP(w, in)
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r}, nil
}

// answer is a response being written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header            { return a.header }
func (a *answer) WriteHeader(status int)         { a.status = status }
func (a *answer) Write(data []byte) (int, error) { return a.body.Write(data) }
