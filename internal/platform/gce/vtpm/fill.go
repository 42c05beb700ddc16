package vtpm

import (
	"errors"
	"fmt"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
)

// StoreTemplate stores in a TPM what Google stores in an instance's: the template of the attestation key. An
// existing template is kept.
func StoreTemplate(t transport.TPM) error {
	_, err := tpm2.NVReadPublic{NVIndex: templateIndex}.Execute(t)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, tpm2.TPMRCHandle):
		return fmt.Errorf("look for the template of the attestation key: %w", err)
	}
	template := tpm2.Marshal(keyTemplate())
	area := tpm2.TPMSNVPublic{NVIndex: templateIndex, NameAlg: tpm2.TPMAlgSHA256, DataSize: uint16(len(template)), //nolint:gosec // about a hundred bytes
		Attributes: tpm2.TPMANV{OwnerWrite: true, OwnerRead: true, AuthWrite: true, AuthRead: true, NT: tpm2.TPMNTOrdinary, NoDA: true}}
	owner := tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)}
	if _, err := (tpm2.NVDefineSpace{AuthHandle: owner, PublicInfo: tpm2.New2B(area)}).Execute(t); err != nil {
		return fmt.Errorf("define the template of the attestation key: %w", err)
	}
	index, err := tpm2.NVReadPublic{NVIndex: templateIndex}.Execute(t)
	if err == nil {
		_, err = tpm2.NVWrite{AuthHandle: owner, NVIndex: tpm2.NamedHandle{Handle: templateIndex, Name: index.NVName}, Data: tpm2.TPM2BMaxNVBuffer{Buffer: template}}.Execute(t)
	}
	if err != nil {
		return fmt.Errorf("write the template of the attestation key: %w", err)
	}
	return nil
}

// keyTemplate returns the template of a restricted signing key: 2048-bit RSA, RSASSA with SHA-256
// (github.com/google/go-tpm-tools, client.AKTemplateRSA).
func keyTemplate() tpm2.TPMTPublic {
	return tpm2.TPMTPublic{Type: tpm2.TPMAlgRSA, NameAlg: tpm2.TPMAlgSHA256,
		ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, Restricted: true, SignEncrypt: true},
		Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgRSA, &tpm2.TPMSRSAParms{KeyBits: 2048,
			Scheme: tpm2.TPMTRSAScheme{Scheme: tpm2.TPMAlgRSASSA, Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgRSASSA, &tpm2.TPMSSigSchemeRSASSA{HashAlg: tpm2.TPMAlgSHA256})}}),
		Unique: tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{Buffer: make([]byte, 256)}),
	}
}
