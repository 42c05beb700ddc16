package channels

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/internal/contract/pki"
)

// keypairObjects returns the secret for an add-on's own authority, and the
// cert-manager issuer that signs with it. The secret is still empty.
func keypairObjects(addon string) (secret, issuer *unstructured.Unstructured) {
	secret = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": map[string]any{"name": addon + "-ca", "namespace": defaultNamespace},
	}}
	issuer = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
		"metadata": map[string]any{"name": addon, "namespace": defaultNamespace},
		"spec":     map[string]any{"ca": map[string]any{"secretName": addon + "-ca"}},
	}}
	return secret, issuer
}

// hasKeypair reports whether an add-on has its authority and issuer, or needs none.
func (a *Applier) hasKeypair(ctx context.Context, addon Addon) (bool, error) {
	if !addon.NeedsPKI {
		return true, nil
	}
	secret, issuer := keypairObjects(addon.Name)
	for _, o := range []*unstructured.Unstructured{secret, issuer} {
		found, err := a.exists(ctx, o)
		if err != nil || !found {
			return false, err
		}
	}
	return true, nil
}

func (a *Applier) exists(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	r, err := a.find(o)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", nameOf(o), err)
	}
	now, err := existing(ctx, r, o)
	return now != nil, err
}

// ensureKeypair creates an add-on's authority and issuer if either is missing. It
// never changes an existing one.
func (a *Applier) ensureKeypair(ctx context.Context, addon Addon) error {
	if !addon.NeedsPKI {
		return nil
	}
	secret, issuer := keypairObjects(addon.Name)
	label(addon.Name, []*unstructured.Unstructured{secret, issuer})
	found, err := a.exists(ctx, secret)
	if err != nil {
		return err
	}
	if !found {
		pair, err := a.Issuer.SelfSigned(pki.Request{Usage: pki.Authority, CommonName: addon.Name, Names: []string{addon.Name}})
		if err != nil {
			return err
		}
		key, err := pair.Key.PEM()
		if err != nil {
			return err
		}
		secret.Object["stringData"] = map[string]any{"tls.crt": string(pki.EncodeCertificate(pair.Certificate)), "tls.key": string(key)}
		if err := a.create(ctx, secret); err != nil {
			return err
		}
	}
	return a.create(ctx, issuer)
}

// create creates an object; it leaves an existing one alone.
func (a *Applier) create(ctx context.Context, o *unstructured.Unstructured) error {
	r, err := a.find(o)
	if err == nil {
		_, err = r.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s: %w", nameOf(o), err)
	}
	return nil
}
