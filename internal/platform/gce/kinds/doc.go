// Package kinds declares the Google Compute Engine resources that kops creates: what each one is,
// how it is observed, and how differences are applied.
//
// The names of objects identify their cluster; references to them are links in the relative form
// projects/P/regions/R/addresses/N (or projects/P/global/firewalls/N), whatever host Google's
// response names.
//
// It must not know why a cluster needs a resource.
package kinds
