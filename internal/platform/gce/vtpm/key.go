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
	// templateIndex is where Google keeps the template of the attestation key, which is RSA
	// (github.com/google/go-tpm-tools, client.GceAKTemplateNVIndexRSA).
	templateIndex = tpm2.TPMHandle(0x01c10001)
	// pieceSize is how much of an index is read at once: every TPM gives as much (TPM 2.0
	// Library, part 2, MAX_NV_BUFFER_SIZE is 512 at the least in the PC Client profile).
	pieceSize = 512
	// enable is what helps where there is no TPM.
	enable = "let the machine's image and template have a virtual TPM: shielded VM, --shielded-vtpm"
)

// withKey calls do with the attestation key, which is made of its template each time: the
// same key of the same TPM.
func withKey(t transport.TPM, do func(key tpm2.AuthHandle, public tpm2.TPMTPublic) error) (err error) {
	template, err := readTemplate(t)
	if err != nil {
		return err
	}
	made, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHEndorsement, InPublic: tpm2.BytesAs2B[tpm2.TPMTPublic](template)}.Execute(t)
	if err != nil {
		return fmt.Errorf("make the attestation key: %w", busy(err))
	}
	defer func() {
		if _, ferr := (tpm2.FlushContext{FlushHandle: made.ObjectHandle}).Execute(t); ferr != nil {
			err = errors.Join(err, fmt.Errorf("let go of the attestation key: %w", ferr))
		}
	}()
	public, err := made.OutPublic.Contents()
	if err != nil {
		return fmt.Errorf("read the attestation key: %w", err)
	}
	return do(tpm2.AuthHandle{Handle: made.ObjectHandle, Name: made.Name, Auth: tpm2.PasswordAuth(nil)}, *public)
}

// readTemplate reads the public area of which the key is made.
func readTemplate(t transport.TPM) ([]byte, error) {
	index, err := tpm2.NVReadPublic{NVIndex: templateIndex}.Execute(t)
	if errors.Is(err, tpm2.TPMRCHandle) {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the TPM has no template of an attestation key at %#x: %w", uint32(templateIndex), err), enable)
	}
	if err != nil {
		return nil, fmt.Errorf("read the template of the attestation key: %w", busy(err))
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
			return nil, fmt.Errorf("read the template of the attestation key: %w", busy(err))
		}
		if len(piece.Data.Buffer) == 0 {
			return nil, errors.New("read the template of the attestation key: it is shorter than it says")
		}
		out = append(out, piece.Data.Buffer...)
	}
	return out, nil
}

// sign signs data, of at most 1024 bytes. As the key signs nothing that might come from
// outside as the TPM's own word, the TPM makes the hash.
func sign(t transport.TPM, data []byte) (signature []byte, err error) {
	err = withKey(t, func(key tpm2.AuthHandle, _ tpm2.TPMTPublic) error {
		hash, err := tpm2.Hash{Data: tpm2.TPM2BMaxBuffer{Buffer: data}, HashAlg: tpm2.TPMAlgSHA256, Hierarchy: tpm2.TPMRHEndorsement}.Execute(t)
		if err != nil {
			return fmt.Errorf("hash what is signed: %w", busy(err))
		}
		signed, err := tpm2.Sign{KeyHandle: key, Digest: hash.OutHash, Validation: hash.Validation,
			InScheme: tpm2.TPMTSigScheme{Scheme: tpm2.TPMAlgRSASSA, Details: tpm2.NewTPMUSigScheme(tpm2.TPMAlgRSASSA, &tpm2.TPMSSchemeHash{HashAlg: tpm2.TPMAlgSHA256})},
		}.Execute(t)
		if err != nil {
			return fmt.Errorf("sign with the attestation key: %w", busy(err))
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

// PublicKey is the attestation key as Compute tells it, signingKey.ekPub of
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

// busy classes what the TPM answers while it has no room or time (TPM 2.0 Library, part 2,
// TPM_RC): another program uses it, and a later try may succeed.
func busy(err error) error {
	for _, code := range []tpm2.TPMRC{tpm2.TPMRCRetry, tpm2.TPMRCYielded, tpm2.TPMRCTesting, tpm2.TPMRCObjectMemory, tpm2.TPMRCObjectHandles, tpm2.TPMRCSessionMemory, tpm2.TPMRCMemory, tpm2.TPMRCNVRate} {
		if errors.Is(err, code) {
			return fault.Wrap(fault.NotYet, err, "")
		}
	}
	return err
}
