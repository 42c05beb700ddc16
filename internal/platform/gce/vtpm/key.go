package vtpm

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"kops.local/kops/internal/engine/fault"
)

const (
	// templateIndex is the NV index at which Google stores the template of the RSA attestation key
	// (github.com/google/go-tpm-tools, client.GceAKTemplateNVIndexRSA).
	templateIndex = tpm2.TPMHandle(0x01c10001)
	// pieceSize is how much of an NV index is read at once: every TPM supports it (TPM 2.0 Library,
	// part 2; in the PC Client profile, MAX_NV_BUFFER_SIZE is at least 512).
	pieceSize = 512
	// enable is the remedy if there is no TPM.
	enable = "use an image and an instance template with a virtual TPM (shielded VM, --shielded-vtpm)"
)

// withKey calls do with the attestation key, which is created from its template each time: a given
// TPM always creates the same key.
func withKey(t transport.TPM, do func(key tpm2.AuthHandle, public tpm2.TPMTPublic) error) (err error) {
	template, err := readTemplate(t)
	if err != nil {
		return err
	}
	made, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHEndorsement, InPublic: tpm2.BytesAs2B[tpm2.TPMTPublic](template)}.Execute(t)
	if err != nil {
		return fmt.Errorf("create the attestation key: %w", classifyBusy(err))
	}
	defer func() {
		if _, ferr := (tpm2.FlushContext{FlushHandle: made.ObjectHandle}).Execute(t); ferr != nil {
			err = errors.Join(err, fmt.Errorf("release the attestation key: %w", ferr))
		}
	}()
	public, err := made.OutPublic.Contents()
	if err != nil {
		return fmt.Errorf("read the attestation key: %w", err)
	}
	return do(tpm2.AuthHandle{Handle: made.ObjectHandle, Name: made.Name, Auth: tpm2.PasswordAuth(nil)}, *public)
}

// readTemplate reads the public area from which the key is created.
func readTemplate(t transport.TPM) ([]byte, error) {
	index, err := tpm2.NVReadPublic{NVIndex: templateIndex}.Execute(t)
	if errors.Is(err, tpm2.TPMRCHandle) {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the TPM has no template for an attestation key at %#x: %w", uint32(templateIndex), err), enable)
	}
	if err != nil {
		return nil, fmt.Errorf("read the template of the attestation key: %w", classifyBusy(err))
	}
	area, err := index.NVPublic.Contents()
	if err != nil {
		return nil, fmt.Errorf("read the template of the attestation key: %w", err)
	}
	var out []byte
	for len(out) < int(area.DataSize) {
		piece, err := tpm2.NVRead{
			AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
			NVIndex:    tpm2.NamedHandle{Handle: templateIndex, Name: index.NVName},
			Size:       min(pieceSize, area.DataSize-uint16(len(out))), Offset: uint16(len(out)), //nolint:gosec // below DataSize
		}.Execute(t)
		if err != nil {
			return nil, fmt.Errorf("read the template of the attestation key: %w", classifyBusy(err))
		}
		if len(piece.Data.Buffer) == 0 {
			return nil, errors.New("read the template of the attestation key: it is shorter than its stated length")
		}
		out = append(out, piece.Data.Buffer...)
	}
	return out, nil
}

// sign signs data, of at most 1024 bytes. The TPM computes the hash, because a restricted key signs
// only what cannot be mistaken for the TPM's own structures.
func sign(t transport.TPM, data []byte) (signature []byte, err error) {
	err = withKey(t, func(key tpm2.AuthHandle, _ tpm2.TPMTPublic) error {
		hash, err := tpm2.Hash{Data: tpm2.TPM2BMaxBuffer{Buffer: data}, HashAlg: tpm2.TPMAlgSHA256, Hierarchy: tpm2.TPMRHEndorsement}.Execute(t)
		if err != nil {
			return fmt.Errorf("hash the signed data: %w", classifyBusy(err))
		}
		signed, err := tpm2.Sign{KeyHandle: key, Digest: hash.OutHash, Validation: hash.Validation,
			InScheme: tpm2.TPMTSigScheme{Scheme: tpm2.TPMAlgRSASSA, Details: tpm2.NewTPMUSigScheme(tpm2.TPMAlgRSASSA, &tpm2.TPMSSchemeHash{HashAlg: tpm2.TPMAlgSHA256})},
		}.Execute(t)
		if err != nil {
			return fmt.Errorf("sign with the attestation key: %w", classifyBusy(err))
		}
		rsa, err := signed.Signature.Signature.RSASSA()
		if err != nil {
			return fmt.Errorf("sign with the attestation key: %w", err)
		}
		signature = rsa.Sig.Buffer
		return nil
	})
	return signature, err
}

// PublicKey returns the attestation key as Compute Engine does in signingKey.ekPub of
// getShieldedInstanceIdentity: a PEM block PUBLIC KEY with a PKIX body.
func PublicKey(t transport.TPM) (text string, err error) {
	err = withKey(t, func(_ tpm2.AuthHandle, public tpm2.TPMTPublic) error {
		key, err := tpm2.Pub(public)
		if err != nil {
			return fmt.Errorf("read the attestation key: %w", err)
		}
		der, err := x509.MarshalPKIXPublicKey(key)
		text = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		return err
	})
	return text, err
}

// classifyBusy classifies the errors of a TPM without free resources (TPM 2.0 Library, part 2, TPM_RC) as
// fault.NotYet: another program is using it, and a retry may succeed.
func classifyBusy(err error) error {
	for _, code := range []tpm2.TPMRC{tpm2.TPMRCRetry, tpm2.TPMRCYielded, tpm2.TPMRCTesting, tpm2.TPMRCObjectMemory, tpm2.TPMRCObjectHandles, tpm2.TPMRCSessionMemory, tpm2.TPMRCMemory, tpm2.TPMRCNVRate} {
		if errors.Is(err, code) {
			return fault.Wrap(fault.NotYet, err, "")
		}
	}
	return err
}
