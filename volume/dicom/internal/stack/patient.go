package stack

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"
)

// This file: whose images are, without saying who that is.

// dummies are what stands in PatientID where somebody removed it, in small letters and without
// anything but letters and digits.
var dummies = map[string]bool{
	"anon": true, "anonym": true, "anonymous": true, "anonymized": true, "anonymised": true, "anonymize": true,
	"anonymise": true, "anonymouspatient": true, "anonpatient": true, "deidentified": true, "removed": true,
	"redacted": true, "deleted": true, "hidden": true, "unknown": true, "unnamed": true, "none": true, "null": true,
	"nil": true, "nan": true, "na": true, "empty": true, "blank": true, "dummy": true, "default": true, "test": true,
	"patient": true, "patientid": true, "id": true, "pid": true, "mrn": true, "subject": true, "noid": true,
	"nopatientid": true, "noname": true, "undefined": true, "notavailable": true, "notknown": true,
}

// patientDigest is a digest of PatientID and the one who issued it, and "" where the PatientID is
// empty or a dummy: one of the words above, or nothing but zeros, letters x and other characters
// that are neither letters nor digits. Case and spaces around an identifier mean nothing.
func patientDigest(id, issuer string) string {
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, id)
	if strings.Trim(bare, "0") == "" || strings.Trim(bare, "x") == "" || dummies[bare] {
		return ""
	}
	normal := func(s string) string { return strings.ToUpper(strings.TrimSpace(s)) }
	return fmt.Sprintf("%x", sha256.Sum256([]byte(normal(id)+"\n"+normal(issuer))))[:16]
}
