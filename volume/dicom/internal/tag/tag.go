// Package tag names the elements of DICOM data sets that are read or written here, by the keywords
// that PS3.6 gives them.
//
// Start at [Tag]. It leaves out all other elements: [Tag.String] knows their keywords as well, but
// nobody here asks for them.
package tag

import (
	"fmt"

	library "github.com/suyashkumar/dicom/pkg/tag"
)

// Tag is the group and the number of an element, as PS3.6 writes them: (0028,0010) is 0x00280010.
type Tag uint32

// The elements that matter here, in the order of their tags.
const (
	FileMetaInformationGroupLength              Tag = 0x00020000
	FileMetaInformationVersion                  Tag = 0x00020001
	MediaStorageSOPClassUID                     Tag = 0x00020002
	MediaStorageSOPInstanceUID                  Tag = 0x00020003
	TransferSyntaxUID                           Tag = 0x00020010
	ImplementationClassUID                      Tag = 0x00020012
	ImplementationVersionName                   Tag = 0x00020013
	SpecificCharacterSet                        Tag = 0x00080005
	ImageType                                   Tag = 0x00080008
	SOPClassUID                                 Tag = 0x00080016
	SOPInstanceUID                              Tag = 0x00080018
	StudyDate                                   Tag = 0x00080020
	SeriesDate                                  Tag = 0x00080021
	AcquisitionDate                             Tag = 0x00080022
	ContentDate                                 Tag = 0x00080023
	StudyTime                                   Tag = 0x00080030
	SeriesTime                                  Tag = 0x00080031
	AcquisitionTime                             Tag = 0x00080032
	ContentTime                                 Tag = 0x00080033
	AccessionNumber                             Tag = 0x00080050
	Modality                                    Tag = 0x00080060
	Manufacturer                                Tag = 0x00080070
	ReferringPhysicianName                      Tag = 0x00080090
	CodeValue                                   Tag = 0x00080100
	CodingSchemeDesignator                      Tag = 0x00080102
	CodeMeaning                                 Tag = 0x00080104
	TimezoneOffsetFromUTC                       Tag = 0x00080201
	StudyDescription                            Tag = 0x00081030
	SeriesDescription                           Tag = 0x0008103E
	OperatorsName                               Tag = 0x00081070
	ManufacturerModelName                       Tag = 0x00081090
	ReferencedSeriesSequence                    Tag = 0x00081115
	ReferencedImageSequence                     Tag = 0x00081140
	ReferencedInstanceSequence                  Tag = 0x0008114A
	ReferencedSOPClassUID                       Tag = 0x00081150
	ReferencedSOPInstanceUID                    Tag = 0x00081155
	ReferencedFrameNumber                       Tag = 0x00081160
	SourceImageSequence                         Tag = 0x00082112
	FrameType                                   Tag = 0x00089007
	DerivationImageSequence                     Tag = 0x00089124
	DerivationCodeSequence                      Tag = 0x00089215
	PatientName                                 Tag = 0x00100010
	PatientID                                   Tag = 0x00100020
	IssuerOfPatientID                           Tag = 0x00100021
	PatientBirthDate                            Tag = 0x00100030
	PatientBirthTime                            Tag = 0x00100032
	PatientSex                                  Tag = 0x00100040
	OtherPatientIDs                             Tag = 0x00101000
	OtherPatientNames                           Tag = 0x00101001
	PatientAge                                  Tag = 0x00101010
	PatientSize                                 Tag = 0x00101020
	PatientWeight                               Tag = 0x00101030
	EthnicGroup                                 Tag = 0x00102160
	Occupation                                  Tag = 0x00102180
	AdditionalPatientHistory                    Tag = 0x001021B0
	PatientComments                             Tag = 0x00104000
	PatientIdentityRemoved                      Tag = 0x00120062
	DeidentificationMethod                      Tag = 0x00120063
	SequenceName                                Tag = 0x00180024
	SliceThickness                              Tag = 0x00180050
	KVP                                         Tag = 0x00180060
	EchoTime                                    Tag = 0x00180081
	InversionTime                               Tag = 0x00180082
	EchoNumbers                                 Tag = 0x00180086
	SpacingBetweenSlices                        Tag = 0x00180088
	DeviceSerialNumber                          Tag = 0x00181000
	SoftwareVersions                            Tag = 0x00181020
	ProtocolName                                Tag = 0x00181030
	TriggerTime                                 Tag = 0x00181060
	RadiopharmaceuticalStartTime                Tag = 0x00181072
	RadionuclideTotalDose                       Tag = 0x00181074
	RadionuclideHalfLife                        Tag = 0x00181075
	RadiopharmaceuticalStartDateTime            Tag = 0x00181078
	ConvolutionKernel                           Tag = 0x00181210
	FlipAngle                                   Tag = 0x00181314
	EffectiveEchoTime                           Tag = 0x00189082
	DiffusionBValue                             Tag = 0x00189087
	MREchoSequence                              Tag = 0x00189114
	MRDiffusionSequence                         Tag = 0x00189117
	CardiacSynchronizationSequence              Tag = 0x00189118
	RespiratoryCyclePosition                    Tag = 0x00189214
	MRImageFrameTypeSequence                    Tag = 0x00189226
	CardiacCyclePosition                        Tag = 0x00189236
	CTReconstructionSequence                    Tag = 0x00189314
	CTXRayDetailsSequence                       Tag = 0x00189325
	CTImageFrameTypeSequence                    Tag = 0x00189329
	ContrastBolusUsageSequence                  Tag = 0x00189341
	ContrastBolusAgentPhase                     Tag = 0x00189344
	StudyInstanceUID                            Tag = 0x0020000D
	SeriesInstanceUID                           Tag = 0x0020000E
	StudyID                                     Tag = 0x00200010
	SeriesNumber                                Tag = 0x00200011
	AcquisitionNumber                           Tag = 0x00200012
	InstanceNumber                              Tag = 0x00200013
	ImagePositionPatient                        Tag = 0x00200032
	ImageOrientationPatient                     Tag = 0x00200037
	FrameOfReferenceUID                         Tag = 0x00200052
	TemporalPositionIdentifier                  Tag = 0x00200100
	PositionReferenceIndicator                  Tag = 0x00201040
	StackID                                     Tag = 0x00209056
	FrameContentSequence                        Tag = 0x00209111
	PlanePositionSequence                       Tag = 0x00209113
	PlaneOrientationSequence                    Tag = 0x00209116
	TemporalPositionIndex                       Tag = 0x00209128
	NominalCardiacTriggerDelayTime              Tag = 0x00209153
	DimensionIndexValues                        Tag = 0x00209157
	DimensionOrganizationUID                    Tag = 0x00209164
	DimensionIndexPointer                       Tag = 0x00209165
	FunctionalGroupPointer                      Tag = 0x00209167
	DimensionOrganizationSequence               Tag = 0x00209221
	DimensionIndexSequence                      Tag = 0x00209222
	NominalPercentageOfCardiacPhase             Tag = 0x00209241
	NominalPercentageOfRespiratoryPhase         Tag = 0x00209245
	StartingRespiratoryAmplitude                Tag = 0x00209246
	StartingRespiratoryPhase                    Tag = 0x00209247
	EndingRespiratoryAmplitude                  Tag = 0x00209248
	EndingRespiratoryPhase                      Tag = 0x00209249
	RespiratorySynchronizationSequence          Tag = 0x00209253
	NominalRespiratoryTriggerDelayTime          Tag = 0x00209255
	TemporalPositionTimeOffset                  Tag = 0x0020930D
	TemporalPositionSequence                    Tag = 0x00209310
	SamplesPerPixel                             Tag = 0x00280002
	PhotometricInterpretation                   Tag = 0x00280004
	NumberOfFrames                              Tag = 0x00280008
	Rows                                        Tag = 0x00280010
	Columns                                     Tag = 0x00280011
	PixelSpacing                                Tag = 0x00280030
	CorrectedImage                              Tag = 0x00280051
	BitsAllocated                               Tag = 0x00280100
	BitsStored                                  Tag = 0x00280101
	HighBit                                     Tag = 0x00280102
	PixelRepresentation                         Tag = 0x00280103
	PixelPaddingValue                           Tag = 0x00280120
	RescaleIntercept                            Tag = 0x00281052
	RescaleSlope                                Tag = 0x00281053
	RescaleType                                 Tag = 0x00281054
	SpatialLocationsPreserved                   Tag = 0x0028135A
	LossyImageCompression                       Tag = 0x00282110
	LossyImageCompressionRatio                  Tag = 0x00282112
	LossyImageCompressionMethod                 Tag = 0x00282114
	ModalityLUTSequence                         Tag = 0x00283000
	LUTDescriptor                               Tag = 0x00283002
	PixelMeasuresSequence                       Tag = 0x00289110
	PixelValueTransformationSequence            Tag = 0x00289145
	MeasurementUnitsCodeSequence                Tag = 0x004008EA
	RealWorldValueMappingSequence               Tag = 0x00409096
	PurposeOfReferenceCodeSequence              Tag = 0x0040A170
	RadiopharmaceuticalInformationSequence      Tag = 0x00540016
	Units                                       Tag = 0x00541001
	SUVType                                     Tag = 0x00541006
	DecayCorrection                             Tag = 0x00541102
	FrameReferenceTime                          Tag = 0x00541300
	SegmentationType                            Tag = 0x00620001
	SegmentSequence                             Tag = 0x00620002
	SegmentedPropertyCategoryCodeSequence       Tag = 0x00620003
	SegmentNumber                               Tag = 0x00620004
	SegmentLabel                                Tag = 0x00620005
	SegmentationAlgorithmIdentificationSequence Tag = 0x00620007
	SegmentAlgorithmType                        Tag = 0x00620008
	SegmentAlgorithmName                        Tag = 0x00620009
	SegmentIdentificationSequence               Tag = 0x0062000A
	ReferencedSegmentNumber                     Tag = 0x0062000B
	RecommendedDisplayCIELabValue               Tag = 0x0062000D
	MaximumFractionalValue                      Tag = 0x0062000E
	SegmentedPropertyTypeCodeSequence           Tag = 0x0062000F
	SegmentedPropertyTypeModifierCodeSequence   Tag = 0x00620011
	SegmentsOverlap                             Tag = 0x00620013
	AlgorithmFamilyCodeSequence                 Tag = 0x0066002F
	AlgorithmVersion                            Tag = 0x00660031
	AlgorithmParameters                         Tag = 0x00660032
	AlgorithmName                               Tag = 0x00660036
	ContentLabel                                Tag = 0x00700080
	ContentDescription                          Tag = 0x00700081
	ContentCreatorName                          Tag = 0x00700084
	StructureSetLabel                           Tag = 0x30060002
	StructureSetDescription                     Tag = 0x30060006
	StructureSetDate                            Tag = 0x30060008
	StructureSetTime                            Tag = 0x30060009
	ReferencedFrameOfReferenceSequence          Tag = 0x30060010
	RTReferencedStudySequence                   Tag = 0x30060012
	RTReferencedSeriesSequence                  Tag = 0x30060014
	ContourImageSequence                        Tag = 0x30060016
	StructureSetROISequence                     Tag = 0x30060020
	ROINumber                                   Tag = 0x30060022
	ReferencedFrameOfReferenceUID               Tag = 0x30060024
	ROIName                                     Tag = 0x30060026
	ROIDisplayColor                             Tag = 0x3006002A
	ROIGenerationAlgorithm                      Tag = 0x30060036
	ROIContourSequence                          Tag = 0x30060039
	ContourSequence                             Tag = 0x30060040
	ContourGeometricType                        Tag = 0x30060042
	NumberOfContourPoints                       Tag = 0x30060046
	ContourData                                 Tag = 0x30060050
	RTROIObservationsSequence                   Tag = 0x30060080
	ObservationNumber                           Tag = 0x30060082
	ReferencedROINumber                         Tag = 0x30060084
	RTROIInterpretedType                        Tag = 0x300600A4
	ROIInterpreter                              Tag = 0x300600A6
	SharedFunctionalGroupsSequence              Tag = 0x52009229
	PerFrameFunctionalGroupsSequence            Tag = 0x52009230
	FloatPixelData                              Tag = 0x7FE00008
	DoubleFloatPixelData                        Tag = 0x7FE00009
	PixelData                                   Tag = 0x7FE00010
	Item                                        Tag = 0xFFFEE000
	ItemDelimitationItem                        Tag = 0xFFFEE00D
	SequenceDelimitationItem                    Tag = 0xFFFEE0DD
)

// VoxsawLabel, in the private block that VoxsawCreator reserves, is the label of a segment in the
// label map, where it differs from its SegmentNumber: those must count from 1 without a gap.
const (
	VoxsawCreator Tag = 0x00630010
	VoxsawLabel   Tag = 0x00631001
)

// Group returns the first half of the tag.
func (t Tag) Group() uint16 { return uint16(t >> 16) }

// Number returns the second half of the tag.
func (t Tag) Number() uint16 { return uint16(t) }

// String returns the keyword of the element, such as PixelSpacing, or the tag itself where the
// standard has none for it.
func (t Tag) String() string {
	if info, err := library.Find(library.Tag{Group: t.Group(), Element: t.Number()}); err == nil {
		return info.Keyword
	}
	return fmt.Sprintf("element (%04x,%04x)", t.Group(), t.Number())
}

// VR returns the value representation of the element, or "" where the standard has none for it, or
// leaves the choice between several.
func (t Tag) VR() string {
	info, err := library.Find(library.Tag{Group: t.Group(), Element: t.Number()})
	if err != nil || len(info.VRs) != 1 {
		return ""
	}
	return info.VRs[0]
}
