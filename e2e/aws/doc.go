// Package aws holds no code: its tests drive the whole of kops against an
// emulator of AWS, behind a proxy that delays, counts and breaks requests.
package aws
